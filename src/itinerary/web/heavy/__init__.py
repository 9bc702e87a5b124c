"""Heavy requests: work whose cost the caller chooses, done in worker processes and not in the process of the engine.

    route ──► HeavyWork.run(work, caller) ──► budget     CPU seconds of this caller: 429 when they are used up
                                          ──► turn       one request of a caller at a time, `web_workers` in all: 503
                                          ──► worker     a process of its own, asked in JSON, answered in JSON

    bounds       how long a window of a request may be, and how many instants it may hold
    works        what a worker can be asked, and the frames that cross the socket
    budget       CPU seconds of each caller
    performing   how each work is done, in a worker or in this process
    forecasts    one of them: what will happen to jobs
    worker       the main function of a worker process
    process      a worker process, as the web server sees it
    in_process   the same work in this process, for stores that no other process can open
    asking       heavy work for a request, which ends with its client
    previews     what a backfill would run, for a request
    pool         the workers, the queue for them, and the result of a request

A worker opens the store itself and only reads. It has a lower priority than the engine, a memory limit and a deadline.
When the client leaves, the deadline passes or the memory limit is reached, the worker is killed. The node is not
affected. A worker that is done stays for a minute, with the timeline that it has read, and ends when the node does.
"""
