"""A node at work: everything around the core that reads, writes, waits and runs.

Each component has one task and a name; they talk to the core by messages, and the core to them by commands.

    inbox       what the core is told, bounded          orchestrators   attempts, on executors; heartbeats
    claimer     creates rows, and starts                watcher         heartbeat of the node, mail, work of others
    syncer      writes what happened                    builder         the timeline, and the index
    sweeper     what was due and has no row             node            puts them together, and ends them
"""
