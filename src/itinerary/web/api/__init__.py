"""The HTTP API, `/api/v1` (U10): the operations of the command line on a store, over HTTP.

    routes            all routes, and the state that they share
    routing           how a route declares its scope, responds and rejects; parameters that all routes accept
    request_bodies    the bodies of requests
    responses         the bodies of responses that `read` has no type for
    lookup            the job or occurrence of an address; cursors
    openapi           the OpenAPI document

    jobs              list and show jobs, their history, explanations and upcoming runs
    job_changes       pause, resume, stop, start, remove, skip, update, roll back
    runs              trigger, cancel, adjust, replay: single occurrences
    backfill_routes   backfills of a past range, and their progress
    job_files         job files: plan and apply
    simulate          forecasts
    records           record schedulers: list, read, append, follow
    maintenance       nodes, audit, prune
    probes            /health/live, /health/ready, /health/progress, /metrics
    events            live changes

No module here makes decisions. A route validates a request strictly, calls `operations` or `read`, and returns the
result.
"""
