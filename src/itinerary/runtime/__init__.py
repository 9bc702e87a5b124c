"""The components of a node: everything around the core that reads, writes, waits and runs.

Every component has one task and a name. Components send messages to the core, and the core sends commands to them.

    inbox           messages for the core, bounded         orchestrators       attempts on executors, their heartbeats
    claimer         creates, starts and releases rows      condition_executor  checks the conditions of a job
    syncer          writes what happened                   heartbeat           node heartbeat, mail, work of other nodes
    index_builder   the timeline and the index             rescuer             takes over the work of dead nodes
    sweeper         finds due instants without a row       watchdog            reports code that blocks the task loop
    node            starts and stops the components        clock, store_retry  store time, and waiting for the store
"""
