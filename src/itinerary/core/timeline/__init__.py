"""The rules that are in force for each job at each instant: pure functions over stored timeline entries.

timeline              the entries of all jobs, read as history
history               the history of one job, in segments
definitions           the definitions in the entries
compiled, job_plan    schedules and jobs, compiled once for each version
expected              the instants that are due in a window
zone_history          time zones whose rules changed
diff                  the effect of an update on future instants
reconcile_unstarted   the effect of an update on occurrences that have not started
schedule_checks       checks of schedules before they are enumerated
index, index_source   the runs that are due in the next minutes
"""
