"""The command line: commands and what they print.

    main         the commands, and how errors are told          loading      from `app.py` or `package:app` to an app
    watching     occurrences as they happen, line by line       planning     what recovery would do
    operating    changing jobs and asking for runs              auditing     what an audit has found, in words
    listing      jobs, what is coming, nodes                    showing      one job, one occurrence, a history: its
    caring       doctor, migrate, prune                                      pages are job_page and run_pages
    records      desks and their logs                           completing   names of jobs for shells
    output       one way to print: width, colour, escapes       layout       tables and lists at any width
    drawing      time as a picture                              bars         how far something is
    shared       the store, instants, errors

Commands say what they did on standard output and everything else on standard error, and end with an exit code that a
program can rely on.
"""
