"""Turn a verdict into an answer: the sentences in their order, and the codes."""

from __future__ import annotations

from collections.abc import Iterable

from itinerary.explain.context import Scene
from itinerary.explain.explanation import Explanation, Fact
from itinerary.explain.verdict import Verdict
from itinerary.schedules.instants import shown_instant

__all__ = ["answer"]


def answer(
    scene: Scene,
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
    said = " ".join(filter(None, (*scene.notes, f"{subject} {verdict.headline}.", verdict.rest, also)))
    if scene.outlook:
        is_said = scene.stands is not None and scene.stands in said
        said = f"{said} {'Nothing more is to come until that ends.' if is_said else scene.outlook}"
    return Explanation(
        job=scene.job.name,
        run=run,
        instant=shown_instant(instant),
        zone=scene.time.zone.name,
        fate=verdict.fate,
        cause=verdict.cause,
        verdict=said,
        facts=tuple(facts),
        advice=verdict.advice,
        following=None if scene.following is None else shown_instant(scene.following),
        following_local=None if scene.following is None else scene.time.dated(scene.following),
    )
