"""The HTTP API and the dashboard of a node (U10), on a thread of their own beside the engine.

    server        the thread, the socket, uvicorn
    application   the routes put together, what every answer carries, and what becomes of errors
    house         what all requests share: the store, the timeline, the node
    knowing       which job has a name, or an id
    counting      how a job went, day by day, for a year
    access        who asks, and whether they may
    live          what people look at, drawn once for all who do, and sent when it changes
    pages         the dashboard
    acting        what people do from it
    heavy         requests whose cost the caller chooses, in worker processes
    background    what goes on when a request has been answered; audits, books and trail are what is kept for pages
    api           the HTTP API

Nothing here decides about occurrences: what people ask for goes through `operations.operator`, as on the command line.
"""
