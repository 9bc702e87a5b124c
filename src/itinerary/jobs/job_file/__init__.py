"""Job files: jobs without Python, in TOML (U2).

    loading        a file as an app uses it                        problems             what is wrong, line by line
    documents      a file, read: its table                         positions            … and the line of each key
    settings       what it says about the node                     options              … and about all jobs
    declarations   what it says about jobs                         schedules, tasks     … and about their parts
    crontab        a crontab, as a job file                        writing              … in TOML

A job file says nothing that Python cannot say. Each job becomes the same `Declaration` that `app.job` makes, and is
checked by the same rules; what is here finds out where in the file the thing stands that a rule complains about, and
goes on after the first complaint: all mistakes of a file are told at once.
"""

from itinerary.jobs.job_file.document import FILE_MAX, Document, read_document
from itinerary.jobs.job_file.problems import Problem, Problems

__all__ = ["FILE_MAX", "Document", "Problem", "Problems", "read_document"]
