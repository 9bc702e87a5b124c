"""What people are told of a scheduler: why something happened, and how it goes.

    explaining    why a job ran, ran late, or did not (U4)

What lives here reads a store, or is handed what a node reports. It decides nothing that is done.
"""
