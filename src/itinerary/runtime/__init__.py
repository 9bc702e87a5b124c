"""A node at work: everything around the core that reads, writes, waits and runs.

Each component has one task and a name; they talk to the core by messages, and the core to them by commands.

    inbox       what the core is told, bounded          orchestrators   attempts, on executors; heartbeats
    claimer     creates rows, starts, gives back        requirements    what must be so before a job runs
    syncer      writes what happened                    watcher         heartbeat of the node, mail, work of others
    builder     the timeline, and the index             rescuer         what becomes of the work of dead nodes
    sweeper     what was due and has no row             watchdog        who blocks the loop of the tasks

    node        puts them together, and ends them       clock, patience the store's time, and waiting for the store
"""
