"""Observe a node from outside: metrics, health, alerts and the log of runs.

    counters, metrics             events of a node, counted and published in the format of Prometheus
    overdue, store_status         due and undecided instants, from the store: correct even if the node hangs
    health, probes                whether a node is alive, ready and makes progress
    listener, probe_server        /health/live, /health/ready, /health/progress and /metrics on their own thread
    node_probe, start_rate        the parts of a node that other threads may read; starts and their lateness
    incidents, alerts, webhooks   jobs in trouble, each reported once
    run_log                       one structured log event for each end of a run
    listen_address                addresses as users write them

A node runs without any of this. `runtime` does not import this package, and no scheduling decision is made here.
"""
