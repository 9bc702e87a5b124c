"""Adjust one run that has not started: set new values over its stored ones (L6, O2, C8).

    read the row ─► lay the new values over its overrides ─► write, if the row was not adjusted since the read
                                                             else read it again

A waiting run keeps its position in the queue: only the values that it will start with change. The row records who
adjusted it, when, why, and which values were set. The store refuses a start that does not know the new values. So no
node can start the run with the old values after this call has returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from itinerary.errors import ConfigError, NodeError, NotFoundError
from itinerary.model.codec import from_json, to_json
from itinerary.model.definition import Definition
from itinerary.model.overrides import LEAVES, NOTHING, OverrideLevel, Overrides, laid_over, leaves_set, read_overrides
from itinerary.model.queries import ByRefQuery
from itinerary.model.rows import OccurrenceRow
from itinerary.model.run_request import Adjusted, details_with
from itinerary.model.states import FINAL
from itinerary.model.text import shown
from itinerary.model.writes import AdjustRequest, Refusal, Refused
from itinerary.operations.job_changes import ROUNDS_MAX
from itinerary.ports import Store
from itinerary.read.run_lookup import RunLike, RunLookup, RunReference
from itinerary.read.timeline_view import TimelineView
from itinerary.schedules.instants import shown_instant
from itinerary.schedules.suggestions import did_you_mean

__all__ = ["ADJUSTABLE", "AdjustedRun", "Permit", "adjust", "options_of"]

Permit: TypeAlias = Callable[[Definition, Overrides], None]
"""A check of new values: receives the definition of a run and the values to set, and raises an error to refuse them."""

ADJUSTABLE: Final = tuple(key for key, levels in LEAVES.items() if OverrideLevel.OCCURRENCE in levels)
"""The keys that one run may set."""


class AdjustedRun(msgspec.Struct, frozen=True):
    """A run with the values that are set on it."""

    run: RunReference
    values: Mapping[str, Any]
    """The values that are set on this run, by key: `{"priority": 9, "retry.max_retries": 3}`."""


async def adjust(
    store: Store,
    view: TimelineView,
    lookup: RunLookup,
    by: str,
    wanted: RunLike,
    options: Mapping[str, object],
    reason: str | None,
    permit: Permit | None = None,
) -> AdjustedRun:
    """Set values on a run that has not started.

    Args:
        store: The store that holds the run.
        view: The timeline and the time of the store.
        finder: The lookup of runs.
        by: The user or token that adjusts the run.
        wanted: The run.
        options: The values to set, by key.
        reason: Why; stored in the row.
        permit: A check that may refuse a value; None permits every value.

    Returns:
        The run with all values that are set on it.

    Raises:
        PermissionDeniedError: `permit` refuses a value.
        ConfigError: A value is not allowed, or `options` is empty.
        NotFoundError: The run is not known.
        NodeError: The run has started or ended.
    """
    given = read_overrides(options, OverrideLevel.OCCURRENCE)
    if given == NOTHING:
        raise ConfigError(f"nothing is to be adjusted; give one of {', '.join(ADJUSTABLE)}")
    run = await lookup.find(store, view, wanted)
    for _ in range(ROUNDS_MAX):
        row = (await store.read(ByRefQuery((run.ref,)))).get(run.ref)
        if row is None:
            raise NotFoundError(f"occurrence {run} is no longer kept: its history has been pruned")
        stored = NOTHING if row.overrides is None else from_json(Overrides, row.overrides)
        overrides = laid_over(stored, given)
        values = dict(leaves_set(overrides))
        _check_waits(run, row)
        if overrides == stored:
            return AdjustedRun(run, values)
        definition = view.timeline.definition(row.job, row.version)
        if permit is not None:
            permit(definition, given)
        definition.config(occurrence=overrides)
        request = AdjustRequest(
            run.ref,
            to_json(overrides).decode(),
            row.adjustments,
            details_with(row.details, Adjusted(by, view.now(), dict(leaves_set(given)), reason)),
        )
        (answer,) = await store.control(view.node, [request])
        if not isinstance(answer, Refused):
            await view.adjusted(row, request.overrides, row.adjustments + 1)
            return AdjustedRun(run, values)
        if answer.why is not Refusal.ADJUSTED:
            fresh = (await store.read(ByRefQuery((run.ref,)))).get(run.ref)
            _check_waits(run, row if fresh is None else fresh)
            raise NodeError(f"{run} was not adjusted: {answer.why}")
    raise NodeError(f"{run} was not adjusted: others adjust it all the time; try again")


def _check_waits(run: RunReference, row: OccurrenceRow) -> None:
    """Raise NodeError if a run has started or ended."""
    if row.status in FINAL:
        raise NodeError(f"{run} has ended already, {row.status}; replay it, and adjust the replay while it waits")
    if row.started_at is not None:
        raise NodeError(
            f"{run} has started already, at {shown_instant(row.started_at)}, and keeps what it was started with; "
            "cancel it and replay it, or change the job"
        )


# -- text that users type ----------------------------------------------------------------------------------------------


def options_of(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse `key=value` texts: `priority=9`, `task_timeout=5m`, `retry.max_retries=3`. Raises ConfigError."""
    options: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = (part.strip() for part in pair.partition("="))
        if not sign or not key or not text:
            raise ConfigError(f"{shown(pair)} sets nothing; write key=value: priority=9, task_timeout=5m")
        if key not in ADJUSTABLE:
            hint = did_you_mean(key, ADJUSTABLE, otherwise=f"there are {', '.join(ADJUSTABLE)}")
            raise ConfigError(f"{shown(key)} cannot be adjusted; {hint}")
        group, _, field = key.rpartition(".")
        (options.setdefault(group, {}) if group else options)[field] = _value(text)
    return options


def _value(text: str) -> object:
    """Decode JSON such as a number or a list; return any other text unchanged."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
