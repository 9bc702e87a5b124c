"""Heavy requests: work whose cost the caller chooses, done in worker processes and not in the engine's process.

    route ──► HeavyWork.run(work, caller) ──► budget     CPU seconds of this caller: 429 when they are used up
                                          ──► turn       one request of a caller at a time, `web_workers` in all: 503
                                          ──► worker     a separate process, JSON requests, JSON responses

    bounds       the maximum length of a window, and of its instants
    works        the requests to a worker, and the frames on the socket
    documents    parsed job files on their way from a worker
    budget       CPU seconds of each caller
    perform      how each work is done, in a worker or in this process
    forecasts    the simulation of jobs
    worker       the main function of a worker process
    process      a worker process, as the web server sees it
    in_process   the same work in this process, for stores that no other process can open
    ask          heavy work for a request, which ends with its client
    previews     the runs that a backfill would create, for a request
    pool         the workers, the queue for them, and the result of a request

A worker opens the store itself and only reads. A worker has a lower priority than the engine, a memory limit and a
deadline. When the client leaves, the deadline passes or the memory limit is reached, the worker is killed. The node is
not affected. An idle worker keeps its timeline for a minute, and ends with the node.
"""
