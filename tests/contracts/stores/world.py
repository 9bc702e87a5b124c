"""One store in a sequence of random operations, and the numbers that it has given out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from itinerary.model.queries import ByRefQuery, StoreStatusQuery
from itinerary.model.retention import PruneCursor
from itinerary.model.rows import EntryKind, JobNumber, Key, NodeNumber, OccurrenceRow, Ref
from itinerary.model.sweeps import SweepPlan
from itinerary.model.timeline import TimelineEntryRequest
from itinerary.schedules.durations import SECOND
from itinerary.stores import ledger
from itinerary.stores.engine import Engine
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import ALL
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.dump import without_times

__all__ = ["BASE", "FAR", "HOUR", "INSTANTS", "JOBS", "NODES", "World", "version"]

NODES, JOBS, INSTANTS = 3, 3, 6
BASE = 1_700_000_000 * SECOND
HOUR = 3600 * SECOND
FAR = 7_000_000_000 * SECOND


class World:
    """One store, and the numbers that it has given out, so that an operation can be told without them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.store = EngineStore(engine)
        self.nodes: list[NodeNumber] = []
        self.jobs: list[JobNumber] = []
        self.refs: list[Ref] = []
        self.keys: dict[Ref, Key] = {}
        self.leases: list[Any] = []
        self.cursor: PruneCursor | None = PruneCursor()
        self.plan: SweepPlan | None = None
        self.updates = 0
        self.versions = [1] * JOBS

    async def begin(self) -> None:
        """Leave nothing in the store that is open: one database serves many sequences."""
        await self.engine.write(_emptied)
        await self.engine.write(ledger.prepare)
        self.nodes = [await self.store.join(f"incarnation {number}", "node", "{}") for number in range(NODES)]
        entered = await self.store.amend([version(f"job {number}", "first", 0) for number in range(JOBS)])
        self.jobs = [one.job for one in entered if not isinstance(one.job, str)]

    async def row(self, number: int, fits: Callable[[OccurrenceRow], bool] = lambda _: True) -> OccurrenceRow | None:
        """One of the occurrences that there have been: if possible one that fits."""
        rows = list((await self.store.read(ByRefQuery(tuple(self.refs)))).values())
        some = [row for row in rows if number % 5 and fits(row)] or rows
        return some[number % len(some)] if some else None

    async def revision(self, *, is_stale: bool) -> int:
        return (await self.store.read(StoreStatusQuery())).revision - is_stale

    def shown(self, answer: Any) -> Any:
        """An answer as both stores must give it: by keys in place of numbers, and without times."""
        match answer:
            case list() | tuple():
                return [self.shown(one) for one in answer]
            case msgspec.Struct():
                values = without_times(msgspec.structs.asdict(answer))
                for name in ("ref", "next"):
                    if values.get(name) is not None:
                        values[name] = self.refs.index(values[name])
                values.pop("by", None)  # it names numbers
                if "key" in values:
                    values["key"] = values["key"]._replace(job=self.jobs.index(values["key"].job))
                return type(answer).__name__, {name: self.shown(value) for name, value in values.items()}
            case _:
                return answer


def _emptied(tx: Transaction) -> None:
    for table in ALL:
        tx.remove(table, [()])


def version(job: str, request: str, from_version: int) -> TimelineEntryRequest:
    return TimelineEntryRequest(
        job=job, kind=EntryKind.VERSION, request=request, by="anna", from_version=from_version, body="{}"
    )
