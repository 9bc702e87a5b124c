"""The central loop of a node, as pure decisions: messages in, commands out.

scheduler                        one iteration of the loop
messages, commands, replies      its input, its output, and its answers to callers
state                            everything that a node knows of its occurrences
timers                           when to act on each occurrence, and which of them wait for a slot
claims, starts, turns            from a due instant to a running occurrence
occurrence, lifecycle            one occurrence from its claim to its end, stage by stage
tasks, task_progress, failure    its tasks, the progress of one, and the effect of a failure on the others
conditions_and_hooks             conditions before a start, and hooks around it
completion, hook_payloads        the end of an occurrence, and what hooks receive
report_queue                     reports of executors, held back while starts are written
takeover, shutdown               occurrences of a dead node, and of a node that shuts down
requests                         cancel, adjust and other requests
task_transactions                transactions that a task shares with the scheduler
change_writer, command_batch     writes to the store, and the commands of one iteration
events, statistics, log_budget   what the loop reports
overload                         whether the node keeps up
"""
