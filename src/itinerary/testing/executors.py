"""The executor of tasks in a test node.

    a coroutine function     on the loop of the test node: its awaits take virtual time
    a plain function         in a thread with real time, while virtual time stands still; `process` too
    a fake                   replaces any of them
    a command, a call, …     refused, unless there is a fake for it: a test must not send mail

A refused task fails like any other. The test also gets an error, so that the cause is not hidden in a report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context

from msgspec.structs import replace

from itinerary.errors import ClockError
from itinerary.executors.base import BaseExecutor, InFlight
from itinerary.executors.context import arguments_of
from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.executors.outcomes import could_not_begin, raised, returned
from itinerary.executors.registry import Registry
from itinerary.executors.task_function import Function
from itinerary.executors.transactions import TransactionFactory, Transactions
from itinerary.model.attempts import Assignment, AttemptKey, Ended, Outcome, Report, Stopped
from itinerary.testing.fakes import Fake, Fakes
from itinerary.testing.test_node_loop import TestNodeLoop, mark

__all__ = ["FakingExecutor"]


class PlainExecutor(BaseExecutor[InFlight]):
    """An executor that runs plain functions in threads, one at a time, while the clock stands still."""

    def __init__(self, registry: Registry, loop: TestNodeLoop, transaction: TransactionFactory) -> None:
        super().__init__()
        self._registry, self._loop, self._factory = registry, loop, transaction

    async def _prepare(self) -> None:
        self._transactions = Transactions(self._factory)

    async def _shut_down(self) -> None:
        """Do nothing: no function runs between two callbacks of the loop."""

    def _accept(self, assignment: Assignment) -> InFlight:
        return InFlight(assignment)

    def _launch(self, attempt: InFlight) -> None:
        self._loop.call_soon(self._run, attempt)

    def _stop(self, attempt: InFlight) -> None:
        attempt.is_stop_asked = True

    def _kill(self, attempt: InFlight) -> None:
        attempt.is_stop_asked = attempt.is_given_up = True
        self._end(attempt.key, Stopped(abandoned=True))

    def _run(self, attempt: InFlight) -> None:
        facts, context = attempt.assignment.facts, Context()
        mark(context)
        what = f"task {facts.task!r} of job {facts.job!r}"
        self._loop.run_in_thread(
            lambda: self._outcome(attempt), lambda outcome: self._ended(attempt, outcome()), what, context
        )

    def _outcome(self, attempt: InFlight) -> Outcome:
        """Run the attempt in a thread, and return its outcome."""
        if attempt.is_stop_asked:
            return Stopped()
        assignment = attempt.assignment
        try:
            function = self._registry.find(assignment.run["python"])
            arguments = arguments_of(function, assignment, attempt, self._transactions)
            return returned(function.call(*arguments), assignment.facts)
        except BaseException as error:  # noqa: BLE001 - an attempt ends here
            return raised(error, attempt)

    def _ended(self, attempt: InFlight, outcome: Outcome) -> None:
        if not self._end(attempt.key, outcome):
            self._came_back(attempt.assignment, outcome)


class FakingExecutor:
    """The executor of a test node."""

    def __init__(self, registry: Registry, fakes: Fakes, loop: TestNodeLoop, transaction: TransactionFactory) -> None:
        self._registry, self._fakes, self._loop = registry, fakes, loop
        self._played = Registry()
        self.coroutines = CoroutineExecutor(registry, loop=loop, transaction=transaction)
        self._plain = PlainExecutor(registry, loop, transaction)
        self._faked = CoroutineExecutor(self._played, loop=loop, transaction=transaction)
        self._all = (self.coroutines, self._plain, self._faked)
        self._names: dict[Fake, str] = {}
        self._report: Callable[[Sequence[Report]], None] = lambda _: None

    async def open(self, report: Callable[[Sequence[Report]], None]) -> None:
        self._report = report
        for executor in self._all:
            await executor.open(report)

    async def close(self) -> None:
        for executor in self._all:
            await executor.close()

    def begin(self, assignments: Sequence[Assignment]) -> None:
        for assignment in assignments:
            fake = None if assignment.argument is not None else self._fake(assignment)
            if fake is not None:
                self._faked.begin((replace(assignment, executor="async", run={"python": self._name(fake)}),))
                continue
            try:
                function = self._function(assignment)
            except Exception as error:  # noqa: BLE001 - an attempt ends here
                self._report((Ended(assignment.key, could_not_begin(error)),))
            else:
                run = {"python": assignment.run["python"]}  # processes and pods are replaced by this process
                assignment = replace(assignment, executor="auto", run=run)  # noqa: PLW2901 - the same assignment, run here
                (self.coroutines if function.is_coroutine else self._plain).begin((assignment,))

    def stop(self, attempts: Sequence[AttemptKey]) -> None:
        for executor in self._all:
            executor.stop(attempts)

    def kill(self, attempts: Sequence[AttemptKey]) -> None:
        for executor in self._all:
            executor.kill(attempts)

    def _fake(self, assignment: Assignment) -> Fake | None:
        return self._fakes.find(assignment.facts.job, assignment.facts.task)

    def _name(self, fake: Fake) -> str:
        """Return the registered name of a fake; fakes may be added while a node runs."""
        if fake not in self._names:
            self._names[fake] = self._played.register(fake.play, f"itinerary.testing:fake.n{len(self._names)}")
        return self._names[fake]

    def _function(self, assignment: Assignment) -> Function:
        name = assignment.run.get("python")
        if isinstance(name, str):
            return self._registry.find(name)
        facts, kind = assignment.facts, next(iter(assignment.run), "nothing")
        error = ClockError(
            f"task {facts.task!r} of job {facts.job!r} is of the kind {kind!r}, which would act on the real world, and "
            f"is not run by a test; say what it comes to: run.fake({f'{facts.job}/{facts.task}'!r})"
        )
        self._loop.refuse(error)
        raise error
