"""The content of a store, as people see it. No node is needed, and nothing is written.

    snapshot          the store and its timeline at one instant
    timeline_view     the timeline of a store, extended by new entries at each read
    jobs              every job in one row: status, last run, next run
    job_detail        one job: definition, configuration with the source of each value, versions, queue
    runs              the runs of a job, and one run with its trail, tasks, attempts and output
    run_lookup        a run by its number, run id or id
    run_id_search     a search of the whole history for an id
    upcoming          the runs that are due in the next hours
    nodes             the nodes of a store
    loop_statistics   the statistics of a node's loop
    boot_plan         the recovery that a node would do if it started now

The results print as JSON. All results are bounded: a store may have a hundred thousand jobs and millions of runs.
"""
