"""The orchestrators: reports from any thread arrive, heartbeats are sent for what is followed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from itinerary.core.loop.commands import Follow, Forget, Kill, Launch, Stop
from itinerary.core.loop.messages import AttemptsReported, Heartbeats
from itinerary.model.attempts import Assignment, AttemptKey, Ended, Report, Succeeded
from itinerary.model.rows import Ref
from itinerary.runtime.inbox import Inbox
from itinerary.runtime.orchestrators import Orchestrators
from itinerary.schedules.durations import SECOND
from tests.contracts.executors.stage import PATIENCE, facts
from tests.unit.runtime.world import Log, World, played

DONE = Succeeded()


def attempt(ref: int) -> AttemptKey:
    return AttemptKey(Ref(ref), 0, 1)


class Puppet:
    """An executor that does nothing by itself: the test reports in its name."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[AttemptKey]]] = []
        self.is_closed = False
        self.report: Callable[[Sequence[Report]], None] = lambda _: None

    async def open(self, report: Callable[[Sequence[Report]], None]) -> None:
        self.report = report

    async def close(self) -> None:
        self.is_closed = True

    def begin(self, assignments: Sequence[Assignment]) -> None:
        self.told.append(("begin", [one.key for one in assignments]))

    def stop(self, attempts: Sequence[AttemptKey]) -> None:
        self.told.append(("stop", list(attempts)))

    def kill(self, attempts: Sequence[AttemptKey]) -> None:
        self.told.append(("kill", list(attempts)))


def test_commands_go_to_the_executor_as_they_came() -> None:
    async def story(world: World) -> None:
        puppet = Puppet()
        orchestrators = Orchestrators(puppet, 10 * SECOND, Inbox(10, SECOND, world.log), world.log)
        await orchestrators.open()
        orchestrators.carry_out(Launch([Assignment(attempt(1), "auto", {}, facts())]))
        orchestrators.carry_out(Stop([attempt(1)]))
        orchestrators.carry_out(Kill([attempt(1)]))
        assert puppet.told == [("begin", [attempt(1)]), ("stop", [attempt(1)]), ("kill", [attempt(1)])]
        await orchestrators.close(1.0)
        assert puppet.is_closed

    played(story)


@pytest.mark.spec("O4", "heartbeats")
def test_each_interval_a_heartbeat_is_sent_for_all_that_are_followed_and_for_no_others() -> None:
    async def story(world: World) -> None:
        inbox = Inbox(10, SECOND, world.log)
        orchestrators = Orchestrators(Puppet(), 10 * SECOND, inbox, world.log)
        await orchestrators.open()
        task = asyncio.create_task(orchestrators.run())
        await asyncio.sleep(15.0)
        assert await inbox.receive(0) == [], "nothing is followed"
        orchestrators.carry_out(Follow([Ref(1), Ref(2)]))
        assert await inbox.receive(60.0) == [Heartbeats([Ref(1), Ref(2)])]
        assert world.loop.time() == 20.0
        orchestrators.carry_out(Forget([Ref(1), Ref(7)]))
        assert await inbox.receive(60.0) == [Heartbeats([Ref(2)])]
        assert world.loop.time() == 30.0
        task.cancel()
        await asyncio.wait([task])

    played(story)


@pytest.mark.spec("O4", "heartbeats")
def test_a_heartbeat_is_not_lost_though_the_loop_takes_no_message_for_a_while() -> None:
    async def story(world: World) -> None:
        inbox = Inbox(1, SECOND, world.log)
        orchestrators = Orchestrators(Puppet(), 10 * SECOND, inbox, world.log)
        await orchestrators.open()
        orchestrators.carry_out(Follow([Ref(1)]))
        task = asyncio.create_task(orchestrators.run())
        await inbox.send(Heartbeats([Ref(2)]))
        await asyncio.sleep(17.0)
        assert await inbox.receive(0) == [Heartbeats([Ref(2)])]
        assert await inbox.receive(0) == [Heartbeats([Ref(1)])]
        task.cancel()
        await asyncio.wait([task])

    played(story)


def test_what_is_reported_together_arrives_as_one_message() -> None:
    async def story(world: World) -> None:
        puppet, inbox = Puppet(), Inbox(10, SECOND, world.log)
        orchestrators = Orchestrators(puppet, 10 * SECOND, inbox, world.log)
        await orchestrators.open()
        task = asyncio.create_task(orchestrators.run())
        for ref in range(1_000):
            puppet.report([Ended(attempt(ref), DONE)])
        (message,) = await inbox.receive(1.0)
        assert isinstance(message, AttemptsReported)
        assert [report.key.ref for report in message.reports] == list(range(1_000))
        task.cancel()
        await asyncio.wait([task])

    played(story)


def test_no_report_is_overlooked_whichever_threads_make_it_at_the_same_time() -> None:
    """Each report must arrive though none follows it: one that was overlooked would wait for ever."""
    log, threads, each = Log(), 8, 300

    async def story() -> list[int]:
        puppet, inbox = Puppet(), Inbox(10_000, SECOND, log)
        orchestrators = Orchestrators(puppet, 1_000 * SECOND, inbox, log)
        await orchestrators.open()
        task = asyncio.create_task(orchestrators.run())
        begin = threading.Barrier(threads)

        def work(number: int) -> None:
            begin.wait()
            for one in range(each):
                puppet.report([Ended(attempt(number * each + one), DONE)])

        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        found: list[int] = []
        async with asyncio.timeout(60.0):
            while len(found) < threads * each:
                for message in await inbox.receive(1.0):
                    assert isinstance(message, AttemptsReported)
                    found += [report.key.ref for report in message.reports]
        for worker in workers:
            worker.join()
        task.cancel()
        await asyncio.wait([task])
        return found

    assert sorted(asyncio.run(story())) == list(range(threads * each))


class Late(list[Report]):
    """Reports that take their time to be put in."""

    def __init__(self, reports: Sequence[Report]) -> None:
        super().__init__(reports)
        self.is_on_its_way, self.may_go_on = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[Report]:
        self.is_on_its_way.set()
        self.may_go_on.wait(PATIENCE)
        return super().__iter__()


def test_a_report_that_is_made_while_the_last_one_is_taken_is_taken_too() -> None:
    """The moment that is easily missed: there is a report when another is made, and none when that one is in."""
    log = Log()

    async def story() -> None:
        puppet, inbox, late = Puppet(), Inbox(10, SECOND, log), Late([Ended(attempt(2), DONE)])
        orchestrators = Orchestrators(puppet, 1_000 * SECOND, inbox, log)
        await orchestrators.open()
        task = asyncio.create_task(orchestrators.run())
        puppet.report([Ended(attempt(1), DONE)])
        worker = threading.Thread(target=puppet.report, args=(late,))
        worker.start()
        late.is_on_its_way.wait(PATIENCE)
        assert await inbox.receive(PATIENCE) == [AttemptsReported([Ended(attempt(1), DONE)])]
        late.may_go_on.set()
        assert await inbox.receive(PATIENCE) == [AttemptsReported([Ended(attempt(2), DONE)])]
        worker.join()
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(story())


def test_a_report_to_a_loop_that_is_closed_is_logged_and_raises_nothing() -> None:
    log, puppet = Log(), Puppet()

    async def story() -> None:
        await Orchestrators(puppet, SECOND, Inbox(10, SECOND, log), log).open()

    asyncio.run(story())
    puppet.report([Ended(attempt(1), DONE)])
    assert log.said("reports.unheard") == [{"count": 1}]


class Deaf(Puppet):
    """An executor whose close never ends."""

    async def close(self) -> None:
        await asyncio.Event().wait()


@pytest.mark.spec("R9", "not everything ended")
def test_executors_that_do_not_close_are_left_behind_after_a_while_and_the_log_says_so() -> None:
    async def story(world: World) -> None:
        orchestrators = Orchestrators(Deaf(), 10 * SECOND, Inbox(10, SECOND, world.log), world.log)
        await orchestrators.open()
        began = world.loop.time()
        await orchestrators.close(7.0)
        assert world.loop.time() - began == pytest.approx(7.0)
        (line,) = world.log.said("executors.not_closed")
        assert line["waited_for"] == 7.0

    played(story)
