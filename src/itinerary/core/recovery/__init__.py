"""Decisions about instants in the past: what is missing, and what to do about it.

sweep              instants that were due and have no row
strategies         the five recovery strategies
match              expected instants, matched with rows and windows
rate_limit         how fast recovery may start runs
unstarted_claims   rows that were claimed and never started
boot_plan          what recovery would do if a node started now
backfill           the instants of a backfill
pause              occurrences that a pause holds back
rescue             the work of dead nodes, and work that is over its timeout
membership         which node claims which occurrences first
audit              expected instants, compared with decided ones
"""
