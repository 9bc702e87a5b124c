"""Operations that operators and programs request from a store or a running node.

operator        all operations on a store, on behalf of one caller
node_client     the operations of a running node, on its event loop
job_changes     pause, resume, stop, start, skip and remove: entries on the timeline of a job
job_updates     new versions of a job, and rollbacks
apply           make a store match a job file, in one transaction
run_requests    trigger, cancel, replay and backfill
backfill        a backfill as values: the request and its progress
adjust          set values on a run that has not started
idempotency     keys that make a repeated request harmless
prune_entry     the timeline entry of a prune
forecast_setup  the jobs and settings of a forecast
tokens          tokens of the web server
doctor          the checks of `itinerary doctor` and `itinerary status`
"""
