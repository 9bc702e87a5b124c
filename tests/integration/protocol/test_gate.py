"""Protocol rule 4: changing the timeline, while others claim and sweep by what they know of it.

Without a gate a sweep passes over a version that is not yet committed, and its instants are lost; or a node whose index
is stale claims what an update has just removed. And the gate has to be a statement of its own: one that locks and reads
has made up its mind about what it sees before it is let in.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from itinerary.model.occurrence import Kind
from itinerary.model.queries import DecidedQuery, StoreStatusQuery
from itinerary.model.rows import EntryRow, Key, NodeNumber, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import SweepPlan, SweepStep
from itinerary.model.timeline import EntryAccepted, UnstartedDecision, UnstartedReconciler, VerdictKind
from itinerary.model.writes import ClaimRequest, Refusal
from itinerary.stores.tables import ENTRIES
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.desk import HOUR, Desk
from tests.integration.protocol import naive
from tests.integration.protocol.scene import Scene, update
from tests.integration.protocol.sessions import THE_END

# -- 4a: a sweep and a version that is not yet committed -------------------------------------------------------------


def test_without_a_gate_the_instants_of_an_uncommitted_version_are_lost(scene: Scene) -> None:
    naive.set_up(scene.watcher)
    person, sweep = scene.plain("person"), scene.plain("sweep")
    person.do("BEGIN")
    assert person.one("SELECT value FROM watermark") == 100
    person.do("INSERT INTO versions VALUES (1, 100)")  # an occurrence every 10 from 100 on: nothing says no
    assert sweep.do("SELECT * FROM versions") == [], "so nothing is due, and everything up to 200 is decided"
    sweep.do("UPDATE watermark SET value = 200")
    person.do("COMMIT")
    due = list(range(100, 200, 10))
    sweep.do("INSERT INTO occurrences (instant) SELECT generate_series(value, 299, 10) FROM watermark")
    decided = {instant for (instant,) in sweep.do("SELECT instant FROM occurrences")}
    assert decided.isdisjoint(due), "no later sweep looks below the watermark: these are lost"


def _plan(scene: Scene, desk: Desk, node: NodeNumber) -> SweepPlan:
    plan = scene.do(desk.store.begin_sweep(node, scene.do(desk.now())))
    assert plan is not None
    return plan


def _whole(plan: SweepPlan) -> SweepStep:
    return SweepStep(fence=plan.fence, step=plan.step + 1, cursor="", is_last=True)


@pytest.mark.spec("R1")
def test_a_sweep_waits_for_a_version_that_is_being_made_and_then_has_to_read_it(scene: Scene) -> None:
    desk = scene.desk()
    node, _ = scene.do(desk.node()), scene.do(desk.job())
    plan = _plan(scene, desk, node)
    person = scene.session("person", lambda store: store.amend([update()]))
    sweep = scene.session("sweep", lambda store: store.advance_sweep(node, desk.revision, _whole(plan)))
    person.until(THE_END)
    sweep.until_it_waits()
    (entered,) = person.finish()
    assert isinstance(entered, EntryAccepted)
    assert sweep.finish() is Refusal.MOVED
    assert scene.do(desk.store.read(StoreStatusQuery())).watermark == plan.start, "nothing has been decided without it"
    assert scene.do(desk.store.advance_sweep(node, entered.revision, _whole(plan))) is None


@pytest.mark.spec("R1")
def test_a_version_waits_for_a_sweep_and_counts_from_after_it(scene: Scene) -> None:
    desk = scene.desk()
    node, _ = scene.do(desk.node()), scene.do(desk.job())
    plan = _plan(scene, desk, node)
    sweep = scene.session("sweep", lambda store: store.advance_sweep(node, desk.revision, _whole(plan)))
    person = scene.session("person", lambda store: store.amend([update()]))
    sweep.until("after get store_meta")
    person.until_it_waits()
    assert sweep.finish() is None
    (entered,) = person.finish()
    assert isinstance(entered, EntryAccepted)
    status = scene.do(desk.store.read(StoreStatusQuery()))
    assert status.watermark == plan.end
    assert entered.effective_from >= plan.end


# -- 4a: a stale index and an update that removes an instant ---------------------------------------------------------


def test_without_a_gate_a_stale_index_claims_what_an_update_has_removed(scene: Scene) -> None:
    naive.set_up(scene.watcher)
    node, person = scene.plain("node"), scene.plain("person")
    node.do("BEGIN")
    assert node.one("SELECT count(*) FROM versions") == 0, "the revision is the one that the index was made from"
    person.do("BEGIN")
    person.do("INSERT INTO versions VALUES (1, 100)")
    person.do("UPDATE occurrences SET status = 'cancelled' WHERE instant = 150")  # there is none yet
    person.do("COMMIT")
    node.do(naive.CLAIM, 150, "node", 150, "node")
    node.do("COMMIT")
    assert scene.watcher.one("SELECT status FROM occurrences WHERE instant = 150") == "prerun", "and it will run"


def _withdrawing(shown: Sequence[OccurrenceRow], _: Sequence[EntryRow]) -> list[UnstartedDecision]:
    return [UnstartedDecision(row.ref, VerdictKind.WITHDRAW, 2, "not in version 2") for row in shown]


_JUDGE: UnstartedReconciler = _withdrawing


@pytest.mark.spec("R7")
def test_an_update_waits_for_a_claim_and_takes_back_what_it_created(scene: Scene) -> None:
    desk = scene.desk()
    owner, job = scene.do(desk.node()), scene.do(desk.job())
    wanted = scene.do(desk.wanted(job))
    node = scene.session("node", lambda store: store.claim(owner, desk.revision, [wanted]))
    person = scene.session("person", lambda store: store.amend([update()], _JUDGE))
    node.until("after get store_meta")
    person.until_it_waits()
    claimed = node.finish()
    assert isinstance(claimed, list)
    person.finish()
    row = scene.do(desk.row(claimed[0].ref))
    assert (row.status, row.is_withdrawn) == (OccurrenceState.CANCELLED, True)


@pytest.mark.spec("D10")
def test_a_claim_waits_for_an_update_and_creates_nothing_by_what_it_knew(scene: Scene) -> None:
    desk = scene.desk()
    owner, job = scene.do(desk.node()), scene.do(desk.job())
    wanted = scene.do(desk.wanted(job))
    person = scene.session("person", lambda store: store.amend([update()], _JUDGE))
    node = scene.session("node", lambda store: store.claim(owner, desk.revision, [wanted]))
    person.until(THE_END)
    node.until_it_waits()
    person.finish()
    assert node.finish() is Refusal.MOVED
    assert list(scene.do(desk.store.read(DecidedQuery(0, wanted.key.instant + 1)))) == []


def test_a_start_waits_for_an_update_and_starts_nothing_by_what_it_knew(scene: Scene) -> None:
    desk = scene.desk()
    owner, job = scene.do(desk.node()), scene.do(desk.job())
    request = desk.request(scene.do(desk.due(owner, job)))
    person = scene.session("person", lambda store: store.amend([update()], _JUDGE))
    node = scene.session("node", lambda store: store.start(owner, desk.revision, [request], 0))
    person.until(THE_END)
    node.until_it_waits()
    person.finish()
    (refused,) = node.finish()
    assert refused.ref == request.ref
    assert getattr(refused, "why", None) is Refusal.MOVED
    assert scene.do(desk.status(request.ref)) is OccurrenceState.CANCELLED


# -- 19: a plan and the claims below its end -------------------------------------------------------------------------


@pytest.mark.spec("R2")
def test_a_plan_waits_for_the_claims_that_are_under_way_and_finds_their_rows(scene: Scene) -> None:
    desk = scene.desk()
    owner, job = scene.do(desk.node()), scene.do(desk.job())
    at = scene.do(desk.now())
    wanted = ClaimRequest(Key(at, job, Kind.SCHEDULED), 1, at)
    node = scene.session("node", lambda store: store.claim(owner, desk.revision, [wanted]))
    sweep = scene.session("sweep", lambda store: store.begin_sweep(owner, at + HOUR))
    node.until("after get store_meta")
    sweep.until_it_waits()
    claimed, plan = node.finish(), sweep.finish()
    assert isinstance(claimed, list)
    assert [one.key for one in claimed] == [wanted.key]
    assert plan is not None
    assert plan.start <= at < plan.end
    assert list(scene.do(desk.store.read(DecidedQuery(plan.start, plan.end)))) == [wanted.key]


@pytest.mark.spec("R2")
def test_a_claim_waits_for_a_plan_and_creates_nothing_below_its_end(scene: Scene) -> None:
    desk = scene.desk()
    owner, job = scene.do(desk.node()), scene.do(desk.job())
    at = scene.do(desk.now())
    wanted = ClaimRequest(Key(at, job, Kind.SCHEDULED), 1, at)
    node = scene.session("node", lambda store: store.claim(owner, desk.revision, [wanted]))
    sweep = scene.session("sweep", lambda store: store.begin_sweep(owner, at + HOUR))
    sweep.until(THE_END)
    node.until_it_waits()
    plan = sweep.finish()
    assert plan is not None
    assert plan.start <= at < plan.end
    assert node.finish() == []
    assert list(scene.do(desk.store.read(DecidedQuery(plan.start, plan.end)))) == []


# -- 4b: the gate is a statement of its own --------------------------------------------------------------------------


def test_lock_and_read_in_one_statement_misses_what_was_committed_while_it_waited(scene: Scene) -> None:
    naive.set_up(scene.watcher)
    person, sweep = scene.plain("person"), scene.plain("sweep")
    person.do("BEGIN")
    person.do("SELECT pg_advisory_xact_lock(1)")
    person.do("INSERT INTO versions VALUES (1, 100)")
    sweep.ask(scene.watcher, naive.GATE_AND_READ)
    person.do("COMMIT")
    assert sweep.answer() == [], "it has waited for the version, and does not see it"
    assert sweep.do(naive.GATE_AND_READ) == [(1,)]


def test_what_is_read_behind_our_gate_is_as_it_is_when_the_gate_opens(scene: Scene) -> None:
    def look(tx: Transaction) -> list[EntryRow]:
        tx.gate()
        return tx.scan(ENTRIES, limit=10)

    desk = scene.desk()
    scene.do(desk.job())
    person = scene.session("person", lambda store: store.amend([update()]))
    sweep = scene.session("sweep", lambda store: store._engine.write(look))
    person.until(THE_END)
    sweep.until_it_waits()
    person.finish()
    assert [entry.version for entry in sweep.finish()] == [1, 2]
