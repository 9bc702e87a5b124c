"""Observation of a node from outside: metrics, health, alerts and the log of runs.

    counters, metrics             events of a node, counted and published in the format of Prometheus
    overdue, store_status         what is due and undecided, by the store: true even if the node hangs
    health, probes                whether a node is alive, ready and makes progress
    listener, probe_server        /health/live, /health/ready, /health/progress and /metrics on their own thread
    incidents, alerts, webhooks   jobs in trouble, each reported once
    run_log                       one structured log event for each end of a run

A node runs without any of this. `runtime` does not import it, and nothing is decided here.
"""
