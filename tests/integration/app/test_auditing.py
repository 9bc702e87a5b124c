"""`itinerary audit` on a store: what was expected, held against what was decided (U6)."""

from __future__ import annotations

import pytest
import structlog

from itinerary import Itinerary, every
from itinerary.app.registering import register
from itinerary.audit import Audited, audit_store
from itinerary.errors import ConfigError
from itinerary.model.occurrence import Kind
from itinerary.model.queries import JobsByName
from itinerary.model.rows import Key
from itinerary.model.sweeps import SweepStep
from itinerary.model.writes import Wanted
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.store import EngineStore
from tests.integration.app.conftest import run

SECOND = 1_000_000
BEGINNING = 1_767_225_600 * SECOND
DAY = 86_400 * SECOND
LOG = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(50))


async def decided(hours: range, *, audited: int = 24) -> Audited:
    """The audit of so many hours of an hourly job, of which these hours have a row."""
    times = [BEGINNING]
    app = Itinerary(store="memory:")
    app.job("hourly", every("1h")).shell("true", ["true"])
    async with EngineStore(MemoryEngine(lambda: times[0])) as store:
        await register(store, app._declared, by="anna", log=LOG)
        number = (await store.read(JobsByName(("hourly",))))["hourly"].number
        times[0] += 3 * DAY
        node = await store.join("one", "one", "{}")
        plan = await store.begin_sweep(node, times[0])
        assert plan is not None
        rows = [Wanted(Key(BEGINNING + hour * 3_600 * SECOND, number, Kind.SCHEDULED), 1, times[0]) for hour in hours]
        last = SweepStep(fence=plan.fence, step=plan.step + 1, cursor="", wanted=tuple(rows), is_last=True)
        assert await store.advance_sweep(node, 1, last) is None
        return await audit_store(store, BEGINNING, BEGINNING + audited * 3_600 * SECOND)


@pytest.mark.spec("U6", "clean")
def test_a_window_in_which_everything_is_decided_once_is_clean() -> None:
    found = run(decided(range(72), audited=60))
    assert (found.expected, found.matched, found.lost, found.doubled, found.is_clean) == (60, 60, 0, 0, True)
    assert (found.start, found.end) == ("2026-01-01T00:00:00Z", "2026-01-03T12:00:00Z")


@pytest.mark.spec("U6", "lost")
def test_what_nobody_decided_is_lost_and_named() -> None:
    found = run(decided(range(1, 72), audited=30))
    assert (found.expected, found.matched, found.lost, found.is_clean) == (30, 29, 1, False)
    (finding,) = found.findings
    assert str(finding) == "hourly:1767225600 (2026-01-01T00:00:00Z) is lost: nothing was decided about it"


def test_what_is_not_decided_yet_is_not_audited() -> None:
    with pytest.raises(ConfigError, match="is later than 2026-01-04T00:00:00Z, up to where everything is decided"):
        run(decided(range(72), audited=73))
