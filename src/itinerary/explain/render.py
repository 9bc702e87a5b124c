"""Turn a verdict into an answer: the sentences in their order, and the codes."""

from __future__ import annotations

from collections.abc import Iterable

from itinerary.explain.context import ExplainContext
from itinerary.explain.explanation import Explanation, Fact
from itinerary.explain.verdict import Verdict
from itinerary.schedules.instants import shown_instant

__all__ = ["answer"]


def answer(
    context: ExplainContext,
    instant: int,
    subject: str,
    verdict: Verdict,
    *,
    run: str | None,
    facts: Iterable[Fact],
    also: str = "",
) -> Explanation:
    """Return the answer: notes about the chosen instant first, then the verdict, and the outlook last.

    Args:
        scene: The job and the time of the question.
        instant: The instant that the answer is about.
        subject: The start of the sentence, before the headline.
        verdict: The result, its cause and the texts.
        run: The run id, if there is a run.
        facts: The facts that support the answer.
        also: One more sentence after the verdict.
    """
    said = " ".join(filter(None, (*context.notes, f"{subject} {verdict.headline}.", verdict.rest, also)))
    if context.outlook:
        is_said = context.stands is not None and context.stands in said
        said = f"{said} {'Nothing more is to come until that ends.' if is_said else context.outlook}"
    return Explanation(
        job=context.job.name,
        run=run,
        instant=shown_instant(instant),
        zone=context.time.zone.name,
        fate=verdict.fate,
        cause=verdict.cause,
        verdict=said,
        facts=tuple(facts),
        advice=verdict.advice,
        following=None if context.following is None else shown_instant(context.following),
        following_local=None if context.following is None else context.time.dated(context.following),
    )
