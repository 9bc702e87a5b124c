"""What is in force for each job at each instant: pure functions over stored timeline entries.

timeline              the entries of all jobs, read as history
history               the history of one job, in segments
definitions           the definitions in the entries
compiled, job_plan    schedules and jobs, compiled once for each version
expected              the instants that are due in a window
zone_history          time zones whose rules changed
diff                  what an update changes
reconcile_unstarted   the effect of an update on occurrences that have not started
schedule_checks       checks of what custom schedules return
index, index_source   what is due in the next minutes
"""
