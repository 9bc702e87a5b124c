"""`explain`: why a job ran, ran late, or did not, in one sentence with the facts under it (U4).

    time_argument   which instant is meant: 2026-03-29T02:30 in the job's zone, or close to it
    load            read everything that the store knows about it into a Scene
    occurrences     explain an occurrence that exists    ┐
    instants        explain an instant without one       ┴─ from the Scene alone  ─► Explanation

    node_presence   which nodes were there, and which could not reach the store
    unfinished      occurrences that have not ended: running, or waiting
    facts           the recorded facts of an occurrence
    delays          what an occurrence waited for before it started
    interruptions   shutdowns during an occurrence
    schedules       whether a schedule is due at an instant, and if not, why
    job_status      the status of the job then, who set it and why
    render          the sentences, in order
    context, causes, explanation, verdict, formatting     the parts of an answer

The answer uses durable facts only. Where those do not say why, the sentence says so, and does not guess.
"""

from itinerary.explain.causes import Cause, Fate
from itinerary.explain.explanation import Explanation, Fact
from itinerary.explain.load import explain, explain_occurrence

__all__ = ["Cause", "Explanation", "Fact", "Fate", "explain", "explain_occurrence"]
