"""`explain`: why a job ran, ran late, or did not run, in one sentence with its facts (U4).

    time_argument   find the instant that the user means: 2026-03-29T02:30 in the job's zone, or close to that
    load            read everything that the store knows about the instant into an ExplainContext
    occurrences     explain an occurrence that exists          ┐
    instants        explain an instant without an occurrence   ┴─ from the context alone  ─► Explanation

    node_presence   which nodes were present, and which nodes could not reach the store
    unfinished      explain an occurrence that is running or waiting
    facts           list the recorded facts of an occurrence
    delays          find what an occurrence waited for before its start
    interruptions   find shutdowns during an occurrence
    schedules       whether an instant is due by a schedule, and if not, why
    job_status      describe the status of the job at that time, who set it and why
    render          put the sentences in order
    context, causes, explanation, verdict, formatting     the parts of an answer

An answer uses durable facts only. Where the facts do not give the cause, the sentence says that and does not guess.
"""

from itinerary.explain.causes import Cause, RunResult
from itinerary.explain.explanation import Explanation, Fact
from itinerary.explain.load import explain, explain_occurrence

__all__ = ["Cause", "Explanation", "Fact", "RunResult", "explain", "explain_occurrence"]
