"""An answer: a sentence, the facts under it, and what to do about it."""

from __future__ import annotations

import msgspec

from itinerary.explain.causes import Cause, Fate

__all__ = ["Explanation", "Fact"]


class Fact(msgspec.Struct, frozen=True):
    """Something that happened, or is so."""

    what: str
    at: str | None = None
    """When, in UTC: 2026-03-29T01:00:00Z. None: it has no time of its own."""
    local: str | None = None
    """The same, as the clock of the job's zone showed it."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why something happened, or did not; as `--json` prints it."""

    job: str
    run: str | None
    """The run id, if it is about one."""
    instant: str | None
    """The instant that it is about, in UTC; None if the job has none at all."""
    zone: str
    """The zone of the job's schedule, in whose time everything is told."""
    fate: Fate
    cause: Cause
    verdict: str
    """What happened, and why, in a sentence or a few."""
    facts: tuple[Fact, ...] = ()
    """What that rests on, in the order of time."""
    advice: str | None = None
    """What to do about it, if there is something to do."""
    following: str | None = None
    """The next instant that is to run, in UTC."""
    following_local: str | None = None
    """The same, as the clock of the job's zone will show it."""
