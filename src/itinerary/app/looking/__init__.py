"""What there is in a store, as people look at it: no node is needed, and nothing is written.

    jobs        every job in a line: how it stands, what came of it last, when it runs next
    details     one job whole: definition, configuration with the source of each value, versions, what waits and why
    runs        a job's occurrences, and one of them whole: trail, tasks, attempts, output
    upcoming    what is due in the next hours, counted for a drawing
    nodes       who is there, and what they say of themselves

Each gives values that print as JSON as they are; how they are shown to people is somebody else's affair. All of them
are bounded: a store may have a hundred thousand jobs, and millions of occurrences.
"""
