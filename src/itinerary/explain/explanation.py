"""An answer: a sentence, the facts that support it, and advice."""

from __future__ import annotations

import msgspec

from itinerary.explain.causes import Cause, RunResult

__all__ = ["Explanation", "Fact"]


class Fact(msgspec.Struct, frozen=True):
    """An event, or a state that holds."""

    what: str
    at: str | None = None
    """The time in UTC: 2026-03-29T01:00:00Z. None: the fact has no time of its own."""
    local: str | None = None
    """That time on the clock of the job's zone."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a run happened or did not happen, as `--json` prints it."""

    job: str
    run: str | None
    """The run id, if the answer is about a run."""
    instant: str | None
    """The instant that the answer is about, in UTC; None if the job has no instants."""
    zone: str
    """The zone of the job's schedule. All texts show the time of this zone."""
    fate: RunResult
    cause: Cause
    verdict: str
    """The result and its reason, in one or a few sentences."""
    facts: tuple[Fact, ...] = ()
    """The facts that support the verdict, in the order of time."""
    advice: str | None = None
    """The action that the user can take, if there is one."""
    following: str | None = None
    """The next instant that will run, in UTC."""
    following_local: str | None = None
    """That time on the clock of the job's zone."""
