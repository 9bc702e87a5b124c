"""The dashboard: pages drawn from the store by the server, and kept up to date while they are open (U10).

showing      a page with the frame around it, or its changes as they happen
templates    Jinja, where everything is escaped unless it was drawn here
wording      instants, durations and states, as the templates write them
signing      who are you? /login and /logout
actions      forms by which people change something
records      desks, and their logs
audit        was everything decided, and who changed what
"""
