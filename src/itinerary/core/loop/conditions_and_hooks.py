"""Everything that runs besides the tasks: requirements, actions for unmet requirements, and hooks (O3, X7).

The executors run them like tasks and report outcomes. Requirements are checked one after another, before anything else:

    condition_pending ─► condition_running ─► met: the next requirement, or the tasks
              ▲                    └─ unmet ─► action_pending ─► action_running ─► skipped, failed, or
              └────────────── wait, or run an action, and check again ◄─────────────────┘

A waiting occurrence is `condition_pending` and gives back its shares of limits. The occurrence keeps its overlap slot.

The start and the end of a wait are written. The checks in between write nothing, because the row already says that the
occurrence waits for the requirement.
"""

from __future__ import annotations

from typing import Any, Final, assert_never

import msgspec
from msgspec.structs import replace

from itinerary.core.loop.command_batch import CommandBatch
from itinerary.core.loop.commands import LogLevel
from itinerary.core.loop.completion import named, outcome
from itinerary.core.loop.hook_payloads import occurrence_told, report_told
from itinerary.core.loop.occurrence import Closing, OccurrenceRun, SideCall, SideCallKind
from itinerary.core.timeline.job_plan import HOOK_TIMEOUT, check_timeout
from itinerary.model.attempts import AttemptKey, Failed, Outcome, Succeeded
from itinerary.model.definition import Requirement, Unmet
from itinerary.model.states import OccurrenceState
from itinerary.model.task import JsonObject
from itinerary.schedules.durations import format_duration, parse_duration

__all__ = [
    "A_REQUIREMENT",
    "CannotBeMet",
    "check",
    "complain",
    "judge",
    "launch",
    "look_again",
    "notify",
    "side_call_on_time",
]

A_REQUIREMENT: Final = "a requirement"
"""The recorded cause of closing an occurrence whose requirements are not met."""
_RUN: Final = "run"


class CannotBeMet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answer of a requirement that waiting cannot meet: the run of another job has ended and has not completed."""

    why: str


def check(run: OccurrenceRun, index: int, now: int, out: CommandBatch) -> None:
    """Check a requirement. The check is launched when its write is durable."""
    requirement = run.plan.definition.requires[index]
    if run.deadline_at is None:
        run.deadline_at = now + parse_duration(requirement.deadline)
    if run.writer.state is OccurrenceState.ACTION_RUNNING:
        run.writer.step(OccurrenceState.CONDITION_PENDING, now)
    if run.writer.state is OccurrenceState.CONDITION_PENDING:
        run.writer.step(OccurrenceState.CONDITION_RUNNING, now, f"requires {requirement}")
    _gate(run, SideCallKind.CONDITION, index, str(requirement), out)


def look_again(run: OccurrenceRun, now: int, out: CommandBatch) -> None:
    """Check a requirement again after a wait. Write nothing."""
    assert run.side_call is not None, "it remembers what it waits for"
    run.resume_at = None
    index = run.side_call.index
    title = str(run.plan.definition.requires[index])
    launch(run, _side_call(run, SideCallKind.CONDITION, index, title), now, out)


def notify(run: OccurrenceRun, kind: SideCallKind, index: int, now: int, out: CommandBatch) -> bool:
    """Call the hook at `index`. Return True if there is none, because all hooks have been called."""
    definition = run.plan.definition
    hooks = definition.on_start if kind is SideCallKind.ON_START else definition.on_complete
    if index == len(hooks):
        run.side_call = None
        return True
    launch(run, _side_call(run, kind, index, hooks[index]), now, out)
    return False


def launch(run: OccurrenceRun, side_call: SideCall, now: int, out: CommandBatch) -> None:
    """Launch a check, action or hook, unless the occurrence was closed while the write was in flight."""
    if run.side_call is not side_call:
        return
    work: JsonObject = {"python": side_call.title}
    argument: object = None
    limit = HOOK_TIMEOUT
    match side_call.kind:
        case SideCallKind.CONDITION:
            work = _checked(run.plan.definition.requires[side_call.index])
            limit = check_timeout(run.start_config.config.job)
        case SideCallKind.ACTION:
            limit = check_timeout(run.start_config.config.job)
        case SideCallKind.ON_START:
            argument = occurrence_told(run)
        case SideCallKind.ON_COMPLETE:
            argument = report_told(run, *outcome(run), now)
    side_call.stop_at = now + limit
    assignment = run.assignment(side_call.key, side_call.title, "auto", work, now)
    out.assignments.append(assignment if argument is None else replace(assignment, argument=argument))


def _checked(requirement: Requirement) -> JsonObject:
    if requirement.python is not None:
        return {"python": requirement.python}
    return {"requirement": {requirement.kind: getattr(requirement, requirement.kind)}}


def _side_call(run: OccurrenceRun, kind: SideCallKind, index: int, title: str) -> SideCall:
    run.side_calls_made += 1
    run.side_call = SideCall(kind, index, title, AttemptKey(run.ref, kind.value, run.side_calls_made))
    return run.side_call


def _gate(run: OccurrenceRun, kind: SideCallKind, index: int, title: str, out: CommandBatch) -> None:
    run.writer.write(out, gate=[_side_call(run, kind, index, title)])


def side_call_on_time(run: OccurrenceRun, now: int, out: CommandBatch) -> bool:
    """Ask an overdue check, action or hook to end, and later kill it. Return True if it was killed."""
    side_call = run.side_call
    if side_call is None:
        return False
    if side_call.stop_at is not None and side_call.stop_at <= now:
        side_call.stop_at, side_call.kill_at = None, now + run.node.kill_grace
        out.stops.append(side_call.key)
    elif side_call.kill_at is not None and side_call.kill_at <= now:
        out.kills.append(side_call.key)
        return True
    return False


# -- outcomes --------------------------------------------------------------------------------------------------------


def complain(run: OccurrenceRun, side_call: SideCall, ended: Outcome, out: CommandBatch) -> None:
    """Log a check, action or hook that did not succeed."""
    if not isinstance(ended, Succeeded):
        error = ended.error if isinstance(ended, Failed) else "it took too long"
        what = f"{side_call.kind.name.lower()} {side_call.title}"
        out.log(LogLevel.WARNING, "errand.failed", **named(run), what=what, error=error)


def judge(run: OccurrenceRun, side_call: SideCall, ended: Outcome, now: int, out: CommandBatch) -> bool | Closing:
    """Evaluate the outcome of a check or an action.

    Return True if all requirements are met, False while there is more to do, or a `Closing` to end the occurrence with.
    """
    if side_call.kind is SideCallKind.ACTION:
        return _acted(run, side_call, ended, now, out)
    requires = run.plan.definition.requires
    requirement = requires[side_call.index]
    if not isinstance(ended, Succeeded):
        return _failed(f"requires {requirement}: it could not be found out whether that is so")
    why = f"requires {requirement}, which is not so"
    answer = _answer(ended.result, requirement)
    if isinstance(answer, CannotBeMet):
        then = Unmet.FAIL if requirement.on_unmet is Unmet.WAIT else requirement.on_unmet
        return _unmet(run, side_call, then, f"{why}: {answer.why}", now, out)
    if answer is None:
        allowed = ", ".join((_RUN, Unmet.WAIT, Unmet.SKIP, Unmet.FAIL))
        return _failed(f"requires {requirement}, which answered {ended.result}; allowed: {allowed}")
    if answer != _RUN:
        return _unmet(run, side_call, Unmet(answer), why, now, out)
    _is_looked_at(run, requirement, now)
    run.deadline_at = None
    if side_call.index + 1 == len(requires):
        return True
    check(run, side_call.index + 1, now, out)
    return False


def _is_looked_at(run: OccurrenceRun, requirement: Requirement, now: int) -> None:
    """End a wait, and record the check that ended it. Checks during a wait are not written."""
    if run.writer.state is OccurrenceState.CONDITION_PENDING:
        run.writer.step(OccurrenceState.CONDITION_RUNNING, now, f"requires {requirement}")


def _answer(result: str | None, requirement: Requirement) -> str | CannotBeMet | None:
    """Return the answer of a requirement: run, or what to do instead. Return None if the answer is not valid."""
    try:
        value: Any = None if result is None else msgspec.json.decode(result)
        if requirement.job is not None and isinstance(value, dict):
            return msgspec.convert(value, CannotBeMet)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    if value is True:
        return _RUN
    if value is False or value is None:
        return requirement.on_unmet
    return value if value in (_RUN, Unmet.WAIT, Unmet.SKIP, Unmet.FAIL) else None


def _unmet(
    run: OccurrenceRun, side_call: SideCall, then: Unmet, why: str, now: int, out: CommandBatch
) -> bool | Closing:
    requirement = run.plan.definition.requires[side_call.index]
    is_waiting = run.writer.state is OccurrenceState.CONDITION_PENDING
    if not (is_waiting and then is Unmet.WAIT):
        _is_looked_at(run, requirement, now)
        run.writer.step(OccurrenceState.ACTION_PENDING, now, why)
        run.writer.step(OccurrenceState.ACTION_RUNNING, now, f"{why}: {then}")
    match then:
        case Unmet.WAIT:
            return _wait(run, requirement, now, out)
        case Unmet.SKIP:
            return Closing(OccurrenceState.SKIPPED, A_REQUIREMENT, why)
        case Unmet.FAIL:
            return _failed(why)
        case Unmet.ACT:
            assert requirement.action is not None, "it goes with on_unmet = act"
            _gate(run, SideCallKind.ACTION, side_call.index, requirement.action, out)
            return False
        case _:
            assert_never(then)


def _acted(run: OccurrenceRun, side_call: SideCall, ended: Outcome, now: int, out: CommandBatch) -> bool | Closing:
    requirement = run.plan.definition.requires[side_call.index]
    if isinstance(ended, Succeeded):
        return _wait(run, requirement, now, out)
    return _failed(f"requires {requirement}, which is not so, and {side_call.title} failed")


def _wait(run: OccurrenceRun, requirement: Requirement, now: int, out: CommandBatch) -> bool | Closing:
    """Check again after an interval, up to the deadline."""
    assert run.deadline_at is not None, "it was set when the requirement was first looked at"
    if now >= run.deadline_at:
        after = format_duration(parse_duration(requirement.deadline))
        return _failed(f"requires {requirement}, which was not so within {after}")
    run.resume_at = min(now + parse_duration(requirement.every), run.deadline_at)
    if run.writer.state is OccurrenceState.CONDITION_PENDING:
        return False  # the wait is written already
    run.writer.step(OccurrenceState.CONDITION_PENDING, now)  # `action_running` means that an action runs
    gives_back = run.has_shares and bool(run.start_config.limits)
    run.has_shares = run.has_shares and not gives_back
    run.writer.write(out, gives_back=gives_back)
    return False


def _failed(why: str) -> Closing:
    return Closing(OccurrenceState.FAILED, A_REQUIREMENT, why)
