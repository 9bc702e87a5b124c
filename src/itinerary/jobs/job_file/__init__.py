"""Job files: jobs without Python, in TOML (U2).

    load           the file, for an app                            problems             its mistakes, with lines
    document       its parsed table                                toml_positions       the line of each key
    settings       the settings of the node                        options              the options of all jobs
    declarations   the jobs                                        schedules, tasks     the parts of a job
    records        the record schedulers
    crontab        a crontab, converted to a job file              crontab_secrets      the secrets in a crontab
    toml_writer    TOML for a converted file

A job file can express nothing that Python cannot. Each job becomes the same `Declaration` that `app.job` makes, and the
same rules check it. The modules here find the place in the file that a rule rejects, and continue after the first
mistake, so that all mistakes of a file are reported at once.
"""

from itinerary.jobs.job_file.document import FILE_MAX, Document, read_document
from itinerary.jobs.job_file.problems import FileProblem, FileProblems

__all__ = ["FILE_MAX", "Document", "FileProblem", "FileProblems", "read_document"]
