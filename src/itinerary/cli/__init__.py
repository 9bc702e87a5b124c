"""The command line: commands and what they print.

    main        the commands, and how errors are told          loading    from `app.py` or `package:app` to an app
    watching    occurrences as they happen, line by line       auditing   what an audit has found, in words
    operating   changing jobs and asking for runs, on a store  shared     where that is, instants, errors

Commands say what they did on standard output and everything else on standard error, and end with an exit code that a
program can rely on.
"""
