"""The command line: commands and their output.

    main           the commands, and the handling of errors       load_app       an app from `app.py` or `package:app`
    live_output    occurrences as they end, line by line          boot_plan      what recovery would do
    operations     change jobs and request runs                   audit          the result of an audit, in words
    list           jobs, upcoming runs, nodes                     show           a job, an occurrence, a history, on the
    maintenance    status, doctor, alert, migrate, prune                         pages of job_page and run_pages
    job_files      check, plan, apply                             crontab        import a crontab
    explain        why a job ran, ran late, or did not            simulate       a forecast
    statistics     the loop of a node                             tokens         tokens of the web server
    records        record schedulers and their logs               completion     names of jobs for shells
    output         printing: width, colour, escapes               layout         tables and lists at any width
    charts         time as a picture                              progress       progress of long commands
    options        the store, errors                              times          times as people type them

Commands print their result on standard output and everything else on standard error. Every command ends with an exit
code that a program can rely on.
"""
