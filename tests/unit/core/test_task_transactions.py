"""Transactions of tasks (D6): the right to make the next write is lent, and comes back with what it came to."""

from __future__ import annotations

from typing import Any

import pytest

from itinerary.core.loop.commands import Write
from itinerary.core.loop.messages import Heartbeats, TransactionEnded, TransactionOpened
from itinerary.core.loop.replies import RequestReply, WriteGrant
from itinerary.model.attempts import AttemptKey, Ended, Failed, Succeeded
from itinerary.model.policies import Retry
from itinerary.model.states import TaskState
from itinerary.model.writes import Written
from tests.unit.core.bench import World, done
from tests.unit.core.scripted import fails, hangs, ignores, works


def running(*tasks: str, **overrides: Any) -> tuple[World, AttemptKey]:
    """An occurrence whose first task runs."""
    world = World()
    world.job("etl", *tasks, **overrides)
    for task in tasks or ("main",):
        world.does(task, hangs())
    world.run_to(1)
    return world, AttemptKey(world.ref, 0, 1)


def commit(world: World, loan: WriteGrant) -> None:
    """What the store does at the end of a task's transaction."""
    (answer,) = done(world.store.write(world.node, [loan.success]))
    assert isinstance(answer, Written)


@pytest.mark.spec("D6")
def test_a_loan_is_the_next_write_of_the_occurrence() -> None:
    world, key = running()
    loan = world.ask(TransactionOpened(key, "asked"))
    assert isinstance(loan, WriteGrant)
    assert (loan.success.sequence, loan.failure.sequence) == (2, 2)
    assert [row.status for row in (*loan.success.attempts, *loan.failure.attempts)] == ["success", "failed"]
    commit(world, loan)
    world.send(TransactionEnded(key, committed=True, writes=1))
    world.report(Ended(key, Succeeded('"done"')))
    world.run_to(5)
    assert world.story() == "completed after 1 s (fail_fast)\nmain success [1 success 0-1]"
    world.at_rest()


@pytest.mark.spec("D6")
@pytest.mark.parametrize("first", ["the end of the transaction", "the end of the attempt"])
def test_what_has_committed_has_succeeded_even_if_the_function_then_raises(first: str) -> None:
    world, key = running(retry=Retry(3, "1s"))
    loan = world.ask(TransactionOpened(key, "asked"))
    commit(world, loan)
    ended, raised = TransactionEnded(key, committed=True, writes=1), Ended(key, Failed("too late"))
    if first == "the end of the transaction":
        world.send(ended)
        world.report(raised)
    else:
        world.report(raised)
        assert world.statuses == ["running"], "what it comes to is not known yet"
        world.send(ended)
    world.run_to(20)
    assert world.story() == "completed after 1 s (fail_fast)\nmain success [1 success 0-1]"
    world.at_rest()


@pytest.mark.spec("D6")
@pytest.mark.parametrize("writes", [0, 1], ids=["nothing was written", "its failure was written in its place"])
def test_a_transaction_that_did_not_commit_leaves_the_attempt_what_it_is(writes: int) -> None:
    world, key = running(retry=Retry(1, "2s"))
    world.does("main", hangs(), works())
    loan = world.ask(TransactionOpened(key, "asked"))
    if writes:
        done(world.store.write(world.node, [loan.failure]))
    world.send(TransactionEnded(key, committed=False, writes=writes))
    world.report(Ended(key, Failed("no")))
    world.run_to(20)
    assert world.story().splitlines()[1] == "main success [1 failed 0-1: no] [2 success 3-4] waits 2"
    world.at_rest()


@pytest.mark.spec("D6")
def test_it_waits_for_the_writes_before_it() -> None:
    world, _ = running("a", "b", mode="parallel")
    world.keep(Write)
    world.report(Ended(AttemptKey(world.ref, 1, 1), Succeeded()))
    key = AttemptKey(world.ref, 0, 1)
    world.send(TransactionOpened(key, "loan"))
    world.run_to(2)
    assert "loan" not in world.answers
    assert any(isinstance(one, Write) and one.is_urgent for one in world.kept), "who waits for it says so"
    world.let_go()
    assert isinstance(world.answers["loan"], WriteGrant)


@pytest.mark.spec("D6")
def test_nothing_else_is_written_meanwhile_and_everything_after() -> None:
    world, key = running("a", "b", "c", mode="parallel", failure="continue")
    loan = world.ask(TransactionOpened(key, "asked"))
    written = len([one for one in world.commands if isinstance(one, Write) and one.changes])
    world.report(Ended(AttemptKey(world.ref, 1, 1), Succeeded()))
    world.report(Ended(AttemptKey(world.ref, 2, 1), Failed("no")))
    world.run_to(4)
    assert len([one for one in world.commands if isinstance(one, Write) and one.changes]) == written
    commit(world, loan)
    world.send(TransactionEnded(key, committed=True, writes=1))
    world.report(Ended(key, Succeeded()))
    world.run_to(6)
    assert [task.status for task in world.detail().tasks] == ["success", "success", "failed"]
    assert world.statuses == ["completed_with_errors"]
    world.at_rest()


@pytest.mark.spec("D6")
def test_a_peer_that_waits_to_retry_waits_for_the_loan_without_turning_in_circles() -> None:
    world, key = running("a", "b", mode="parallel", retry=Retry(1, "2s"))
    world.does("b", fails(), works())
    loan = world.ask(TransactionOpened(key, "asked"))
    world.report(Ended(AttemptKey(world.ref, 1, 1), Failed("no")))
    before = len(world.commands)
    world.run_to(8)
    assert len(world.commands) - before < 50
    assert len(world.script.launched) == 2
    commit(world, loan)
    world.send(TransactionEnded(key, committed=True, writes=1))
    world.run_to(9)
    assert [one.key.number for one in world.script.launched] == [1, 1, 2]


@pytest.mark.spec("D6")
def test_two_tasks_borrow_one_after_the_other() -> None:
    world, key = running("a", "b", mode="parallel")
    other = AttemptKey(world.ref, 1, 1)
    first = world.ask(TransactionOpened(key, "asked"))
    world.send(TransactionOpened(other, "second"))
    world.run_to(3)
    assert "second" not in world.answers
    commit(world, first)
    world.send(TransactionEnded(key, committed=True, writes=1))
    world.run_to(4)
    second = world.answers["second"]
    assert second.success.sequence == first.success.sequence + 1
    commit(world, second)
    world.send(TransactionEnded(other, committed=True, writes=1))
    world.report(Ended(key, Succeeded()))
    world.report(Ended(other, Succeeded()))
    world.run_to(5)
    assert world.statuses == ["completed"]
    world.at_rest()


@pytest.mark.spec("D6")
def test_it_is_refused_to_an_attempt_that_is_over_or_has_had_one() -> None:
    world, key = running("a", "b")
    loan = world.ask(TransactionOpened(key, "asked"))
    commit(world, loan)
    world.send(TransactionEnded(key, committed=True, writes=1))
    assert world.ask(TransactionOpened(key, "asked")) == RequestReply(
        done=False, why="its attempt has committed a transaction already"
    )
    world.report(Ended(key, Succeeded()))
    over = RequestReply(done=False, why="its attempt is over")
    assert world.ask(TransactionOpened(key, "asked")) == over
    assert world.ask(TransactionOpened(AttemptKey(world.ref, 1, 2), "asked")) == over
    assert world.ask(TransactionOpened(AttemptKey(world.ref, 9, 1), "asked")) == over


@pytest.mark.spec("D6")
def test_it_is_refused_to_one_that_is_asked_to_end() -> None:
    world, key = running()
    world.does("main", ignores())
    world.cancel(by="anna")
    assert world.ask(TransactionOpened(key, "asked")) == RequestReply(done=False, why="its attempt is over")


@pytest.mark.spec("D6")
@pytest.mark.spec("O5")
def test_one_that_is_given_up_in_its_transaction_is_what_the_transaction_came_to() -> None:
    world = World()
    world.job("etl", task_timeout="5s", retry=Retry(3, "1s"))
    world.does("main", ignores())
    world.run_to(1)
    key = AttemptKey(world.ref, 0, 1)
    loan = world.ask(TransactionOpened(key, "asked"))
    world.run_to(20)
    assert world.script.killed == [key]
    commit(world, loan)
    world.send(TransactionEnded(key, committed=True, writes=1))
    world.run_to(30)
    assert world.story() == "completed after 20 s (fail_fast)\nmain success [1 success 0-20]"
    assert len(world.script.launched) == 1
    world.at_rest()


@pytest.mark.spec("D6")
@pytest.mark.spec("O4")
def test_an_orphan_whose_transaction_commits_after_all_has_done_what_it_did() -> None:
    world, key = running()
    loan = world.ask(TransactionOpened(key, "asked"))
    world.is_silent = True
    world.run_to(40)
    commit(world, loan)
    world.send(TransactionEnded(key, committed=True, writes=1))
    world.run_to(41)
    assert world.statuses == ["orphaned"]
    (attempt,) = world.detail().attempts
    assert attempt.status is TaskState.SUCCESS
    world.at_rest()


@pytest.mark.spec("D6")
def test_the_end_of_a_transaction_that_nobody_lent_is_logged_and_changes_nothing() -> None:
    world, key = running()
    world.send(TransactionEnded(key, committed=True, writes=1))
    world.run_to(2)
    assert len(world.logged("transaction.late")) == 1
    world.send(Heartbeats([world.ref]))
    world.report(Ended(key, Failed("no")))
    world.run_to(3)
    assert world.statuses == ["failed"]
    world.at_rest()
