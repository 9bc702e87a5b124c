"""`explain`: why a job ran, ran late, or did not, in a sentence with the facts under it (U4).

    asking        which instant is meant                       2026-03-29T02:30, in the job's zone, or nearly
    reading       everything that a store says of it           ─► Scene
    occurrences   an occurrence that there is   ┐
    instants      an instant that has none      ┴─ decided from the Scene alone  ─► Explanation

    attendance    who was there, and who could not reach the store
    unfinished    what has not ended: it runs, or what it waits for
    facts         what is on record of an occurrence
    delays        what an occurrence waited for before it began
    schedules     what a schedule says of an instant: due, excluded, out of its range, not on the clock that night
    standings     how the job stood, by whom and why
    answering     the sentences, in their order
    causes, explanation, words      what an answer is made of

Only what is durable is told. Where that does not say why, the sentence says so, and does not guess.
"""

from itinerary.observe.explaining.causes import Cause, Fate
from itinerary.observe.explaining.explanation import Explanation, Fact
from itinerary.observe.explaining.reading import explain, explain_occurrence

__all__ = ["Cause", "Explanation", "Fact", "Fate", "explain", "explain_occurrence"]
