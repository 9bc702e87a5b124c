"""Bounds for the connections of a server: how many, from where, for how long. The web server and the health listener
share them.

    descriptors     the limit of open files of this process, and the share of it that a server may use
    deadlines       how long a server waits for a client
    clients         which addresses count as one client
    gate            how many connections there may be, in all and per client, and which one makes room
    accepting       takes connections from a listening socket, at a bounded pace
    refusals        counts what was refused, and logs it at most once a minute

The engine opens files and starts processes in the same process as these servers. So a server that could use every
descriptor would make runs fail. Nothing in here knows HTTP.
"""
