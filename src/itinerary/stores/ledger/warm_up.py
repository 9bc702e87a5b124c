"""A warm-up: made-up occurrences that are claimed, started and ended, and then rolled back.

A store prepares each kind of statement at its first use: SQLite parses it and checks all its parts, which takes longer
than running it. A node must not start late because of that. So at startup it runs everything once, with a number of
occurrences that the engine chooses.
"""

from __future__ import annotations

from typing import Final, NoReturn

from itinerary.model.occurrence import Kind
from itinerary.model.policies import Overlap
from itinerary.model.rows import AttemptRow, EntryKind, Key, TaskRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.model.writes import Claimed, ClaimRequest, OwnerWrite, Started, StartRequest, Step
from itinerary.stores.ledger.bulk_start import begin
from itinerary.stores.ledger.claim import claim
from itinerary.stores.ledger.configs import number_configs
from itinerary.stores.ledger.nodes import join
from itinerary.stores.ledger.start import start
from itinerary.stores.ledger.timeline import amend
from itinerary.stores.ledger.write import write
from itinerary.stores.transaction import Transaction

__all__ = ["WarmedUp", "warm_up"]

_NAME: Final = "itinerary.warm_up"
_CONFIG: Final = "{}"


class WarmedUp(Exception):
    """Raised to roll back a successful warm-up."""


def warm_up(tx: Transaction, count: int) -> NoReturn:
    """Claim, start and end `count` occurrences, each of its own job.

    Raises:
        WarmedUp: Always, so that the store rolls everything back.
    """
    node, now = join(tx, _NAME, _NAME, "{}"), tx.now()
    entries = [
        TimelineEntryRequest(
            job=f"{_NAME} {number}", kind=EntryKind.VERSION, request=_NAME, by=_NAME, from_version=0, body="{}"
        )
        for number in range(count)
    ]
    entered = [one for one in amend(tx, entries, None) if isinstance(one, EntryAccepted)]
    revision, configs = entered[-1].revision, number_configs(tx, [_CONFIG])
    for instant, is_plain in ((now, True), (now + 1, False)):  # not earlier than now: a sweep may have covered that
        wanted = [ClaimRequest(Key(instant, one.job, Kind.SCHEDULED), 1, now) for one in entered]
        claimed = claim(tx, node, revision, wanted)
        assert isinstance(claimed, list), "nobody else changes the timeline meanwhile"
        starts = [_start(one, is_plain=is_plain) for one in claimed]
        if is_plain:
            started = begin(tx, node, revision, starts, configs)
        else:
            answers = start(tx, node, revision, starts, 0, configs)
            started = [one for one in answers if isinstance(one, Started)]
        assert len(started) == count, "nobody is in the way"
        write(tx, node, [_end(one, now) for one in started])
    raise WarmedUp


def _start(one: Claimed, *, is_plain: bool) -> StartRequest:
    attempts = (AttemptRow(one.ref, 0, 1, TaskState.RUNNING),)
    job, instant = one.key.job, one.key.instant
    return StartRequest(
        one.ref, one.fence, 0, _CONFIG, 1, Overlap.SKIP, attempts=attempts, job=job, instant=instant, is_plain=is_plain
    )


def _end(one: Started, now: int) -> OwnerWrite:
    return OwnerWrite(
        one.ref,
        one.fence,
        one.sequence + 1,
        (Step(OccurrenceState.COMPLETED, now),),
        (TaskRow(one.ref, 0, "main", TaskState.SUCCESS),),
        (AttemptRow(one.ref, 0, 1, TaskState.SUCCESS, now, now),),
    )
