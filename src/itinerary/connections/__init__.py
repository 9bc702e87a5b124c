"""Limits for the connections of a server: their number, their origin and their duration.

The web server and the health listener share these modules.

    descriptors     the limit of open files of this process, and the part of it that a server may use
    deadlines       the time limits of a server for its clients
    clients         which addresses count as one client
    gate            how many connections are allowed, in all and per client, and which one to close for a new one
    accept          accepts connections from a listening socket, at a limited rate
    refusals        counts refused connections, and logs them at most once a minute

The scheduler opens files and starts processes in the same process as these servers. A server that used every file
descriptor would therefore make runs fail. No module here knows HTTP.
"""
