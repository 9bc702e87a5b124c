"""The dashboard: pages rendered from the store by the server, and updated while they are open (U10).

rendering       a page with its frame, or its live changes
templates       Jinja, which escapes everything that was not rendered here
filters         instants, durations and states, as the templates write them
login           /login and /logout
actions         forms that change something
records         record schedulers and their logs
audit           audits, and the change log
"""
