"""HTTP API and dashboard of a node (U10), on their own thread beside the engine.

    server         the thread, the socket, uvicorn
    application    all routes, the headers of every response, the handling of errors
    server_state   the state that all requests share: the store, the timeline, the node
    job_lookup     the job with a given name or id
    daily_counts   the results of a job, day by day, for a year
    access         the caller of a request, and the caller's scope
    live           pages in view, rendered once for all viewers and sent when they change
    pages          the dashboard
    actions        the actions that users take on the dashboard
    heavy          requests whose cost the caller chooses, in worker processes
    background     work that continues after the response
    audits, record_log_cache, change_log    data that is cached for pages
    api            the HTTP API

No module here decides about occurrences: requests go through `operations.operator`, as on the command line.
"""
