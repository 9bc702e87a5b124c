"""Protocol rule 6: a claim whose answer was lost is tried again, while the first try is being committed.

Created and read are two statements. In one, the second try waits for the first, creates nothing since the row is there,
and does not see the row, since it was not there when the statement began. The node concludes that another has won, all
others know that they have not, and nobody runs it.
"""

from __future__ import annotations

import pytest

from itinerary.model.writes import Claimed
from tests.integration.protocol import naive
from tests.integration.protocol.scene import Scene
from tests.integration.protocol.sessions import THE_END


def test_create_and_read_in_one_statement_misses_the_earlier_try_of_the_same_owner(scene: Scene) -> None:
    naive.set_up(scene.watcher)
    first, second = scene.plain("first"), scene.plain("second")
    first.do("BEGIN")
    assert first.do(naive.CLAIM, 150, "node", 150, "node") == [(150,)]  # and this answer is lost
    second.ask(scene.watcher, naive.CLAIM, 150, "node", 150, "node")
    first.do("COMMIT")
    assert second.answer() == [], "it is not mine, says the statement"
    assert scene.watcher.one("SELECT owner FROM occurrences WHERE instant = 150") == "node", "and it is"


@pytest.mark.spec("D5")
@pytest.mark.spec("N2")
def test_our_claim_finds_the_earlier_try_of_the_same_owner(scene: Scene) -> None:
    desk = scene.desk()
    owner, job = scene.do(desk.node()), scene.do(desk.job())
    wanted = [scene.do(desk.wanted(job)) for _ in range(3)]
    first = scene.session("first", lambda store: store.claim(owner, desk.revision, wanted[:2]))
    second = scene.session("second", lambda store: store.claim(owner, desk.revision, wanted))
    first.until(THE_END)
    second.until_it_waits()
    mine = first.finish()
    again = second.finish()
    assert isinstance(mine, list)
    assert isinstance(again, list)
    assert sorted(claimed.ref for claimed in again)[:2] == [claimed.ref for claimed in mine]
    assert {claimed.key for claimed in again} == {one.key for one in wanted}


@pytest.mark.spec("D5")
@pytest.mark.spec("N1")
def test_of_two_nodes_that_claim_the_same_one_gets_it_and_the_other_hears_that_it_did_not(scene: Scene) -> None:
    desk = scene.desk()
    winner, loser, job = scene.do(desk.node()), scene.do(desk.node()), scene.do(desk.job())
    wanted = [scene.do(desk.wanted(job))]
    first = scene.session("first", lambda store: store.claim(winner, desk.revision, wanted))
    second = scene.session("second", lambda store: store.claim(loser, desk.revision, wanted))
    first.until(THE_END)
    second.until_it_waits()
    ((claimed,), nothing) = first.finish(), second.finish()
    assert isinstance(claimed, Claimed)
    assert nothing == []
    assert scene.do(desk.row(claimed.ref)).owner == winner


def test_a_claim_that_is_undone_leaves_it_to_the_other(scene: Scene) -> None:
    desk = scene.desk()
    gone, other, job = scene.do(desk.node()), scene.do(desk.node()), scene.do(desk.job())
    wanted = [scene.do(desk.wanted(job))]
    first = scene.session("first", lambda store: store.claim(gone, desk.revision, wanted), patience=0)
    second = scene.session("second", lambda store: store.claim(other, desk.revision, wanted))
    first.until(THE_END)
    second.until_it_waits()
    scene.watcher.do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'first'")
    (claimed,) = second.finish()
    assert isinstance(claimed, Claimed)
    assert scene.do(desk.row(claimed.ref)).owner == other
