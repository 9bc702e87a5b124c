"""Looking at a scheduler from outside: why something happened, and how it goes.

    explaining                  why a job ran, ran late, or did not (U4)
    tally, metrics              what a node tells, counted; and published in the format of Prometheus
    undecided, lookout          what is due and undecided, by the store: true even if the node itself hangs
    health, listener            /health/live, /health/ready, /health/progress and /metrics, on a thread of their own
    incidents, alerts, webhooks which job is in trouble; told to people, once

Nothing here is needed for a node to run. It is handed what happens, and looks at the store; the runtime knows nothing
of it, and nothing that is done is decided here.
"""
