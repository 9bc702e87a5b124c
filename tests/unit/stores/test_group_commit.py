"""The writer's thread: one commit for all that waits, and each stands or falls alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from itinerary.errors import StoreError, StoreUnavailable
from itinerary.stores.group_commit import Writer, WriterSession


class Paper:
    """A session that writes on a list. A transaction with a stain on it cannot be committed."""

    def __init__(self) -> None:
        self.pages: list[list[str]] = []
        """What was committed, transaction by transaction."""
        self.page: list[str] = []
        self.mark = 0
        self.repairs = 0
        """How often a lost transaction may be tried again."""
        self.is_closed = False
        self.rested = threading.Semaphore(0)

    def begin(self) -> None:
        self.page = []

    def savepoint(self) -> Any:
        self.mark = len(self.page)
        return self.page

    def release(self) -> None:
        """Nothing to do."""

    def undo(self, error: Exception) -> None:
        if isinstance(error, MemoryError):
            raise error
        del self.page[self.mark :]

    def commit(self) -> None:
        if "stain" in self.page:
            raise OSError("a stain")
        self.pages.append(self.page)

    def rollback(self) -> None:
        self.page = []

    def repair(self, error: Exception) -> Exception | None:
        if self.repairs:
            self.repairs -= 1
            return None
        return StoreError(f"lost: {error}")

    def rest(self) -> None:
        self.rested.release()

    def close(self) -> None:
        self.is_closed = True


def line(text: str, error: BaseException | None = None) -> Callable[[Any], str]:
    def work(page: list[str]) -> str:
        page.append(text)
        if error is not None:
            raise error
        return text.upper()

    return work


def held(begun: threading.Event, until: threading.Event) -> Callable[[Any], None]:
    """Work during which the others come to wait together."""

    def work(_: Any) -> None:
        begun.set()
        assert until.wait(60)

    return work


async def together(paper: WriterSession, *works: Callable[[Any], Any], group_max: int = 1_000) -> list[Any]:
    """What comes of works that wait together."""
    writer = Writer("paper", lambda: paper, group_max=group_max)
    await writer.start()
    begun, until = threading.Event(), threading.Event()
    first = asyncio.create_task(writer.run(held(begun, until)))
    await asyncio.to_thread(begun.wait, 60)
    others = [asyncio.create_task(writer.run(work)) for work in works]
    await asyncio.sleep(0)
    until.set()
    answers = await asyncio.gather(*others, return_exceptions=True)
    await first
    await writer.close()
    return answers


def test_what_waits_together_is_committed_together() -> None:
    paper = Paper()
    assert asyncio.run(together(paper, line("a"), line("b"), line("c"))) == ["A", "B", "C"]
    assert paper.pages == [[], ["a", "b", "c"]]
    assert paper.is_closed


def test_a_transaction_takes_no_more_than_its_share() -> None:
    paper = Paper()
    asyncio.run(together(paper, *map(line, "abcde"), group_max=2))
    assert paper.pages == [[], ["a", "b"], ["c", "d"], ["e"]]


def test_work_that_raises_is_undone_alone() -> None:
    paper = Paper()
    error = KeyError("mine")
    assert asyncio.run(together(paper, line("a"), line("b", error), line("c"))) == ["A", error, "C"]
    assert paper.pages == [[], ["a", "c"]]


def test_a_transaction_that_is_lost_is_halved_until_only_those_are_told_who_are_the_reason() -> None:
    paper = Paper()
    answers = asyncio.run(together(paper, *map(line, ["a", "b", "c", "stain", "d", "e", "f"])))
    assert [answer for answer in answers if isinstance(answer, str)] == ["A", "B", "C", "D", "E", "F"]
    assert str(answers[3]) == "lost: a stain"
    assert [text for page in paper.pages for text in page] == ["a", "b", "c", "d", "e", "f"]


def test_an_error_that_the_session_does_not_undo_loses_the_transaction() -> None:
    paper = Paper()
    answers = asyncio.run(together(paper, line("a"), line("b", MemoryError("all"))))
    assert answers[0] == "A"
    assert str(answers[1]) == "lost: all"
    assert paper.pages == [[], ["a"]]


def test_a_transaction_that_was_repaired_runs_again() -> None:
    paper = Paper()
    paper.repairs = 3
    tries: list[int] = []

    def third_time(page: list[str]) -> int:
        tries.append(1)
        page.append("stain" if len(tries) < 3 else "clean")
        return len(tries)

    assert asyncio.run(together(paper, third_time)) == [3]
    assert paper.pages == [[], ["clean"]]


def test_a_session_that_repairs_without_end_is_stopped() -> None:
    paper = Paper()
    paper.repairs = 10_000
    (answer,) = asyncio.run(together(paper, line("stain")))
    assert "and repaired it each time" in str(answer)


def test_a_transaction_that_cannot_begin_is_told_to_all_and_the_next_one_begins() -> None:
    class Shut(Paper):
        count = 0

        def begin(self) -> None:
            self.count += 1
            if self.count == 2:
                raise StoreUnavailable("shut")
            super().begin()

    paper = Shut()
    answers = asyncio.run(together(paper, *map(line, "abc"), group_max=2))
    assert list(map(str, answers)) == ["shut", "shut", "C"]


def test_work_of_a_caller_that_left_before_it_began_is_not_done() -> None:
    async def leave() -> list[list[str]]:
        paper = Paper()
        writer = Writer("paper", lambda: paper)
        await writer.start()
        begun, until = threading.Event(), threading.Event()
        first = asyncio.create_task(writer.run(held(begun, until)))
        await asyncio.to_thread(begun.wait, 60)
        left, stays = (asyncio.create_task(writer.run(line(text))) for text in ("left", "stays"))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.wait([left])
        until.set()
        await asyncio.gather(first, stays)
        await writer.close()
        return paper.pages

    assert asyncio.run(leave()) == [[], ["stays"]]


def test_when_the_thread_ends_all_who_wait_and_all_who_come_are_told() -> None:
    async def end() -> None:
        writer = Writer("paper", Paper)
        await writer.start()
        begun, until = threading.Event(), threading.Event()
        first = asyncio.create_task(writer.run(held(begun, until)))
        await asyncio.to_thread(begun.wait, 60)
        works = [line("a"), line("b", SystemExit()), line("c")]
        others = [asyncio.create_task(writer.run(work)) for work in works]
        await asyncio.sleep(0)
        until.set()
        await first
        answers = await asyncio.gather(*others, return_exceptions=True)
        assert [type(answer) for answer in answers] == [StoreUnavailable] * 3
        with pytest.raises(StoreUnavailable, match="its writer has ended"):
            await writer.run(line("d"))
        await writer.close()

    asyncio.run(asyncio.wait_for(end(), 60))


def test_starting_raises_what_connecting_does() -> None:
    def refuse() -> WriterSession:
        raise ValueError("no such paper")

    async def start() -> None:
        writer = Writer("paper", refuse)
        with pytest.raises(ValueError, match="no such paper"):
            await writer.start()
        with pytest.raises(StoreUnavailable):
            await writer.run(line("a"))
        await writer.close()

    asyncio.run(start())


def test_an_error_that_a_future_cannot_carry_reaches_its_caller_all_the_same() -> None:
    (answer,) = asyncio.run(together(Paper(), line("a", StopIteration())))
    assert isinstance(answer, RuntimeError)


def test_nothing_can_be_asked_before_the_start_or_after_the_end() -> None:
    async def early_and_late() -> None:
        writer = Writer("paper", Paper)
        with pytest.raises(StoreUnavailable, match="is not open"):
            await writer.run(line("a"))
        await writer.close()
        await writer.start()
        await writer.close()
        await writer.close()
        with pytest.raises(StoreUnavailable, match="is closed"):
            await writer.run(line("a"))

    asyncio.run(early_and_late())


def test_a_caller_whose_event_loop_is_gone_holds_up_nobody() -> None:
    paper = Paper()
    writer = Writer("paper", lambda: paper)
    asyncio.run(writer.start())
    begun, until = threading.Event(), threading.Event()

    async def ask_and_go() -> None:
        asked = asyncio.create_task(writer.run(held(begun, until)))
        await asyncio.to_thread(begun.wait, 60)
        asked.cancel()

    asyncio.run(ask_and_go())
    until.set()
    assert asyncio.run(writer.run(line("a"))) == "A"
    asyncio.run(writer.close())


def test_after_work_the_session_may_rest_once_and_again_only_after_more_work() -> None:
    async def story() -> None:
        paper = Paper()
        writer = Writer("paper", lambda: paper)
        await writer.start()
        for _ in range(3):
            await writer.run(line("a"))
            assert await asyncio.to_thread(paper.rested.acquire, timeout=60)
        assert not await asyncio.to_thread(paper.rested.acquire, timeout=0.3), "nothing has been written since"
        await writer.run(line("b"))
        await writer.close()
        assert paper.is_closed

    asyncio.run(story())
