"""From a verdict to an answer: the sentences in their order, and the codes."""

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
    """What is said: first what another instant was found for, then what became of it, and at last what is to come."""
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
