"""A node in a process: the thread that runs it, and what it needs of its machine.

    thread              a node in a thread with an event loop of its own
    environment         the store, the executors and the clocks that a node runs on
    event_loop          an event loop whose end has a time limit
    shutdown_signals    run until SIGTERM or Ctrl-C, then shut down
    signal_thread       the thread that handles signals, and ends the process at the deadline of a shutdown
    init_process        process 1 of a container: reap children, pass signals on
    health_listener     the listener for probes and metrics
    record_handlers     the record schedulers of a program, and the threads of their handlers
    task_transactions   transactions that a task shares with the scheduler
    memory_protection   close the memory of a node to other processes

The components of a node are in `runtime`. This package starts them, and ends them within a deadline.
"""
