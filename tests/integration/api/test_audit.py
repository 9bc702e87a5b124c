"""`itinerary audit` on a store: what was expected, held against what was decided (U6)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import pytest
import structlog

from itinerary import Itinerary, every
from itinerary.audit import AuditResult, NotLookedAt, audit_store
from itinerary.errors import ConfigError
from itinerary.jobs.registration import register
from itinerary.model.occurrence import Kind
from itinerary.model.queries import JobsByNameQuery
from itinerary.model.rows import Key
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import SweepStep
from itinerary.model.writes import ClaimRequest
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.store import EngineStore
from tests.integration.api.conftest import run

SECOND = 1_000_000
BEGINNING = 1_767_225_600 * SECOND
DAY = 86_400 * SECOND
LOG = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(50))


async def decided(
    hours: range,
    *,
    audited: int | None = 24,
    start: int = 0,
    down_for: int = 0,
    states: Sequence[OccurrenceState] = (),
) -> AuditResult:
    """The audit of so many hours of an hourly job, of which these hours have a row, the first of them in these states;
    so many seconds after everything was decided."""
    times = [BEGINNING]
    app = Itinerary(store="memory:")
    app.job("hourly", every("1h")).shell("true", ["true"])
    async with EngineStore(MemoryEngine(lambda: times[0])) as store:
        await register(store, app._declared, by="anna", log=LOG)
        number = (await store.read(JobsByNameQuery(("hourly",))))["hourly"].number
        times[0] += 3 * DAY
        node = await store.join("one", "one", "{}")
        plan = await store.begin_sweep(node, times[0])
        assert plan is not None
        rows = [
            ClaimRequest(Key(BEGINNING + hour * 3_600 * SECOND, number, Kind.SCHEDULED), 1, times[0], state)
            for hour, state in zip_longest(hours, states, fillvalue=OccurrenceState.PRERUN)
            if isinstance(hour, int)
        ]
        last = SweepStep(fence=plan.fence, step=plan.step + 1, cursor="", wanted=tuple(rows), is_last=True)
        assert await store.advance_sweep(node, 1, last) is None
        times[0] += down_for * SECOND
        end = None if audited is None else BEGINNING + audited * 3_600 * SECOND
        return await audit_store(store, BEGINNING + start * 3_600 * SECOND, end)


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


@pytest.mark.spec("U6", "what was not looked at")
def test_what_is_not_decided_yet_is_not_audited_and_that_is_said() -> None:
    found = run(decided(range(72), audited=73))
    assert (found.expected, found.end, found.is_clean, found.is_complete) == (72, "2026-01-04T00:00:00Z", True, False)
    assert found.not_looked_at == NotLookedAt(start="2026-01-04T00:00:00Z", end="2026-01-04T01:00:00Z", expected=0)


@pytest.mark.spec("U6", "what was not looked at")
def test_without_an_end_the_window_ends_now_and_instants_behind_the_watermark_are_counted() -> None:
    found = run(decided(range(72), audited=None, down_for=5 * 3_600))
    assert (found.expected, found.is_clean, found.is_complete) == (72, True, False)
    assert found.not_looked_at == NotLookedAt(start="2026-01-04T00:00:00Z", end="2026-01-04T04:59:00Z", expected=5)


@pytest.mark.spec("U6", "what was not looked at")
def test_a_window_is_complete_if_nothing_was_due_behind_the_watermark() -> None:
    found = run(decided(range(72), audited=None, down_for=30))
    assert (found.expected, found.is_clean, found.is_complete) == (72, True, True)


def test_a_window_of_which_nothing_is_decided_is_refused() -> None:
    with pytest.raises(ConfigError, match="everything is decided up to 2026-01-04T00:00:00Z, and the window begins at"):
        run(decided(range(72), audited=100, start=80))


@pytest.mark.spec("U6", "decided and done")
def test_what_became_of_the_instants_is_counted_and_what_did_not_run_is_named() -> None:
    states = [OccurrenceState.SKIPPED] * 3 + [OccurrenceState.MISSED] * 2
    found = run(decided(range(1, 72), audited=30, states=states))
    assert found.outcomes == {"prerun": 24, "skipped": 3, "missed": 2}
    assert (found.lost, found.not_run) == (1, 6)
