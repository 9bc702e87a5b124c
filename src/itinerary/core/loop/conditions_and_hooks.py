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

from itinerary.core.loop.command_batch import Outbox
from itinerary.core.loop.commands import Level
from itinerary.core.loop.completion import named, outcome
from itinerary.core.loop.hook_payloads import occurrence_told, report_told
from itinerary.core.loop.occurrence import Closing, Course, Errand, ErrandKind
from itinerary.core.timeline.job_plan import HOOK_TIMEOUT, check_timeout
from itinerary.model.attempts import AttemptKey, Failed, Outcome, Succeeded
from itinerary.model.definition import Requirement, Unmet
from itinerary.model.job import JsonObject
from itinerary.model.states import OccurrenceState
from itinerary.schedules.durations import format_duration, parse_duration

__all__ = ["A_REQUIREMENT", "Hopeless", "check", "complain", "errand_on_time", "judge", "launch", "look_again", "tell"]

A_REQUIREMENT: Final = "a requirement"
"""The recorded cause of closing an occurrence whose requirements are not met."""
_RUN: Final = "run"


class Hopeless(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answer of a requirement that waiting cannot meet: the run of another job has ended and has not completed."""

    why: str


def check(course: Course, index: int, now: int, out: Outbox) -> None:
    """Check a requirement. The check is launched when its write is durable."""
    requirement = course.plan.definition.requires[index]
    if course.deadline_at is None:
        course.deadline_at = now + parse_duration(requirement.deadline)
    if course.pen.state is OccurrenceState.ACTION_RUNNING:
        course.pen.step(OccurrenceState.CONDITION_PENDING, now)
    if course.pen.state is OccurrenceState.CONDITION_PENDING:
        course.pen.step(OccurrenceState.CONDITION_RUNNING, now, f"requires {requirement}")
    _gate(course, ErrandKind.CONDITION, index, str(requirement), out)


def look_again(course: Course, now: int, out: Outbox) -> None:
    """Check a requirement again after a wait. Write nothing."""
    assert course.errand is not None, "it remembers what it waits for"
    course.resume_at = None
    index = course.errand.index
    title = str(course.plan.definition.requires[index])
    launch(course, _errand(course, ErrandKind.CONDITION, index, title), now, out)


def tell(course: Course, kind: ErrandKind, index: int, now: int, out: Outbox) -> bool:
    """Call the hook at `index`. Return True if there is none, because all hooks have been called."""
    definition = course.plan.definition
    hooks = definition.on_start if kind is ErrandKind.ON_START else definition.on_complete
    if index == len(hooks):
        course.errand = None
        return True
    launch(course, _errand(course, kind, index, hooks[index]), now, out)
    return False


def launch(course: Course, errand: Errand, now: int, out: Outbox) -> None:
    """Launch a check, action or hook, unless the occurrence was closed while the write was in flight."""
    if course.errand is not errand:
        return
    run: JsonObject = {"python": errand.title}
    argument: object = None
    limit = HOOK_TIMEOUT
    match errand.kind:
        case ErrandKind.CONDITION:
            run = _checked(course.plan.definition.requires[errand.index])
            limit = check_timeout(course.terms.config.job)
        case ErrandKind.ACTION:
            limit = check_timeout(course.terms.config.job)
        case ErrandKind.ON_START:
            argument = occurrence_told(course)
        case ErrandKind.ON_COMPLETE:
            argument = report_told(course, *outcome(course), now)
    errand.stop_at = now + limit
    assignment = course.assignment(errand.key, errand.title, "auto", run, now)
    out.assignments.append(assignment if argument is None else replace(assignment, argument=argument))


def _checked(requirement: Requirement) -> JsonObject:
    if requirement.python is not None:
        return {"python": requirement.python}
    return {"requirement": {requirement.kind: getattr(requirement, requirement.kind)}}


def _errand(course: Course, kind: ErrandKind, index: int, title: str) -> Errand:
    course.errands_run += 1
    course.errand = Errand(kind, index, title, AttemptKey(course.ref, kind.value, course.errands_run))
    return course.errand


def _gate(course: Course, kind: ErrandKind, index: int, title: str, out: Outbox) -> None:
    course.pen.write(out, gate=[_errand(course, kind, index, title)])


def errand_on_time(course: Course, now: int, out: Outbox) -> bool:
    """Ask an overdue check, action or hook to end, and later kill it. Return True if it was killed."""
    errand = course.errand
    if errand is None:
        return False
    if errand.stop_at is not None and errand.stop_at <= now:
        errand.stop_at, errand.kill_at = None, now + course.here.kill_grace
        out.stops.append(errand.key)
    elif errand.kill_at is not None and errand.kill_at <= now:
        out.kills.append(errand.key)
        return True
    return False


# -- outcomes --------------------------------------------------------------------------------------------------------


def complain(course: Course, errand: Errand, ended: Outcome, out: Outbox) -> None:
    """Log a check, action or hook that did not succeed."""
    if not isinstance(ended, Succeeded):
        error = ended.error if isinstance(ended, Failed) else "it took too long"
        what = f"{errand.kind.name.lower()} {errand.title}"
        out.log(Level.WARNING, "errand.failed", **named(course), what=what, error=error)


def judge(course: Course, errand: Errand, ended: Outcome, now: int, out: Outbox) -> bool | Closing:
    """Evaluate the outcome of a check or an action.

    Return True if all requirements are met, False while there is more to do, or a `Closing` to end the occurrence with.
    """
    if errand.kind is ErrandKind.ACTION:
        return _acted(course, errand, ended, now, out)
    requires = course.plan.definition.requires
    requirement = requires[errand.index]
    if not isinstance(ended, Succeeded):
        return _failed(f"requires {requirement}: it could not be found out whether that is so")
    why = f"requires {requirement}, which is not so"
    answer = _answer(ended.result, requirement)
    if isinstance(answer, Hopeless):
        then = Unmet.FAIL if requirement.on_unmet is Unmet.WAIT else requirement.on_unmet
        return _unmet(course, errand, then, f"{why}: {answer.why}", now, out)
    if answer is None:
        allowed = ", ".join((_RUN, Unmet.WAIT, Unmet.SKIP, Unmet.FAIL))
        return _failed(f"requires {requirement}, which answered {ended.result}; allowed: {allowed}")
    if answer != _RUN:
        return _unmet(course, errand, Unmet(answer), why, now, out)
    _is_looked_at(course, requirement, now)
    course.deadline_at = None
    if errand.index + 1 == len(requires):
        return True
    check(course, errand.index + 1, now, out)
    return False


def _is_looked_at(course: Course, requirement: Requirement, now: int) -> None:
    """End a wait, and record the check that ended it. Checks during a wait are not written."""
    if course.pen.state is OccurrenceState.CONDITION_PENDING:
        course.pen.step(OccurrenceState.CONDITION_RUNNING, now, f"requires {requirement}")


def _answer(result: str | None, requirement: Requirement) -> str | Hopeless | None:
    """Return the answer of a requirement: run, or what to do instead. Return None if the answer is not valid."""
    try:
        value: Any = None if result is None else msgspec.json.decode(result)
        if requirement.job is not None and isinstance(value, dict):
            return msgspec.convert(value, Hopeless)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    if value is True:
        return _RUN
    if value is False or value is None:
        return requirement.on_unmet
    return value if value in (_RUN, Unmet.WAIT, Unmet.SKIP, Unmet.FAIL) else None


def _unmet(course: Course, errand: Errand, then: Unmet, why: str, now: int, out: Outbox) -> bool | Closing:
    requirement = course.plan.definition.requires[errand.index]
    is_waiting = course.pen.state is OccurrenceState.CONDITION_PENDING
    if not (is_waiting and then is Unmet.WAIT):
        _is_looked_at(course, requirement, now)
        course.pen.step(OccurrenceState.ACTION_PENDING, now, why)
        course.pen.step(OccurrenceState.ACTION_RUNNING, now, f"{why}: {then}")
    match then:
        case Unmet.WAIT:
            return _wait(course, requirement, now, out)
        case Unmet.SKIP:
            return Closing(OccurrenceState.SKIPPED, A_REQUIREMENT, why)
        case Unmet.FAIL:
            return _failed(why)
        case Unmet.ACT:
            assert requirement.action is not None, "it goes with on_unmet = act"
            _gate(course, ErrandKind.ACTION, errand.index, requirement.action, out)
            return False
        case _:
            assert_never(then)


def _acted(course: Course, errand: Errand, ended: Outcome, now: int, out: Outbox) -> bool | Closing:
    requirement = course.plan.definition.requires[errand.index]
    if isinstance(ended, Succeeded):
        return _wait(course, requirement, now, out)
    return _failed(f"requires {requirement}, which is not so, and {errand.title} failed")


def _wait(course: Course, requirement: Requirement, now: int, out: Outbox) -> bool | Closing:
    """Check again after an interval, up to the deadline."""
    assert course.deadline_at is not None, "it was set when the requirement was first looked at"
    if now >= course.deadline_at:
        after = format_duration(parse_duration(requirement.deadline))
        return _failed(f"requires {requirement}, which was not so within {after}")
    course.resume_at = min(now + parse_duration(requirement.every), course.deadline_at)
    if course.pen.state is OccurrenceState.CONDITION_PENDING:
        return False  # the wait is written already
    course.pen.step(OccurrenceState.CONDITION_PENDING, now)  # `action_running` means that an action runs
    gives_back = course.has_shares and bool(course.terms.limits)
    course.has_shares = course.has_shares and not gives_back
    course.pen.write(out, gives_back=gives_back)
    return False


def _failed(why: str) -> Closing:
    return Closing(OccurrenceState.FAILED, A_REQUIREMENT, why)
