"""The configuration of a node: where settings come from, how they are reloaded, and how a node logs.

configuration   settings from the program, environment variables and files, in this order of precedence
job_options     the options of a job, a task and a run, as types for editors and type checkers
reload          read the settings again while a node runs
log_setup       logging: event names with fields, for people or as JSON
log_limits      the longest log line
alerts          the alert receivers that the settings name
"""
