"""The HTTP API, `/api/v1` (U10): what the command line does on a store, over HTTP.

    routes        all of them, put together, and what they share
    framing       how a route says what it needs, answers and refuses; what all of them take and do not take
    bodies        what is sent with a request
    answers       what comes back, where looking from elsewhere has no type for it
    finding       the job or occurrence that an address means; cursors
    document      the OpenAPI document

    jobs          look at jobs, their history, why they ran, and what comes
    changing      pause, resume, stop, start, remove, skip, update, roll back
    running       trigger, cancel, replay: single occurrences
    backfilling   a range of the past, followed while it runs
    filing        job files: plan and apply
    foreseeing    simulate
    records       desks, their logs, appending, following
    caring        nodes, audit, prune
    probing       /health/live, /health/ready, /health/progress, /metrics
    watching      what changes, live

Nothing is decided here. A request is read strictly, handed to `app`, and what came of it is told.
"""
