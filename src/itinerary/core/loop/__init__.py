"""The central loop of a node, as pure decisions: messages in, commands out.

scheduler                        one iteration of the loop
messages, commands, replies      its input, its output, and its answers to callers
state                            everything that a node knows about its occurrences
timers                           timers of occurrences, and the queue for slots of the node
claims, starts, turns            from a due instant to a running occurrence
occurrence, lifecycle            one occurrence from its claim to its end, stage by stage
tasks, task_progress, failure    the tasks of an occurrence, and the effect of a failed task on the others
conditions_and_hooks             requirements before a start, and hooks
completion, hook_payloads        the end of an occurrence, and the data that hooks receive
takeover, shutdown               occurrences of a dead node, and of a node that shuts down
requests                         cancel requests, updates and queries
task_transactions                transactions that a task shares with the scheduler
change_writer, command_batch     writes to the store, and the commands of one iteration
report_queue                     executor reports that wait while many runs start
events, statistics, log_budget   events, statistics and log lines of the loop
overload                         detects whether the node keeps up
"""
