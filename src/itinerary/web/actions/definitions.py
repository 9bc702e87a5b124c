"""The actions: titles, explanations, form fields and effects.

    a job            trigger pause resume stop start skip backfill remove
    an occurrence    cancel adjust replay
    a backfill       halt

The user sees the explanation before anything happens. An action that is impossible is an error with its reason, and has
no effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final

import msgspec

from itinerary.core.recovery.backfill import InstantChoice
from itinerary.core.recovery.pause import HeldBacklog
from itinerary.errors import ConfigError, NodeError
from itinerary.model.scopes import Scope
from itinerary.operations.adjust import options_of
from itinerary.operations.backfill import Backfill, BackfillWish
from itinerary.operations.operator import Operator
from itinerary.web.actions.backfills import ReceivedBackfills
from itinerary.web.actions.form import FormFields
from itinerary.web.actions.targets import Subject, backfill_address
from itinerary.web.pages.filters import run_url

__all__ = ["ACTIONS", "ADJUSTED_FIELDS", "Action", "ConfirmedAction", "TargetKind", "wish_of"]

ADJUSTED_FIELDS: Final = {
    "priority": ("Priority", "9"),
    "task_timeout": ("Task timeout", "5m"),
    "execution_timeout": ("Execution timeout", "1h"),
    "retry.max_retries": ("Retries", "3"),
    "retry.retry_interval": ("Retry interval", "30s"),
    "failure": ("Failure", "continue"),
    "overlap": ("Overlap", "queue"),
}
"""The settings that the form offers, each with its label and an example."""


class TargetKind(StrEnum):
    """The kind of target of an action, as in its address."""

    JOB = "job"
    RUN = "run"
    BACKFILL = "backfill"


class ConfirmedAction(msgspec.Struct, frozen=True):
    """An action that a user has confirmed."""

    operator: Operator
    subject: Subject
    typed: FormFields
    backfills: ReceivedBackfills
    preview: Callable[[BackfillWish], Awaitable[Backfill]]
    """Computes the runs that a backfill of the job would create."""
    notes: list[str] = msgspec.field(default_factory=list)
    """Further facts for the message after the action."""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of action. `{}` in its texts is the name of its target."""

    title: str
    sentence: str
    """The explanation before the action."""
    done: str
    """The message after the action."""
    button: str
    do: Callable[[ConfirmedAction], Awaitable[str]]
    """Performs the action and returns the address of the next page."""
    about: TargetKind = TargetKind.JOB
    fields: frozenset[str] = frozenset()
    """The form fields besides the reason."""
    needs: Scope = Scope.OPERATE
    is_grave: bool = False


def wish_of(typed: FormFields) -> BackfillWish:
    """Read the backfill that a form describes. Raises ConfigError."""
    start, end = typed.instant("from", "From"), typed.instant("to", "To")
    if start is None or end is None:
        raise ConfigError("a backfill needs a range: from when on, and before when")
    return BackfillWish(
        start=start,
        end=end,
        which=typed.text("which", InstantChoice.MISSING),
        max_active=typed.number("max_active", "At a time", 1),
        reason=typed.reason,
        key=typed.key,
        version=typed.text("version", "original"),
    )


async def _trigger(doing: ConfirmedAction) -> str:
    run = await doing.operator.requests.trigger(doing.subject.name, doing.typed.key, {}, doing.typed.reason)
    return run_url(run.ref)


async def _pause(doing: ConfirmedAction) -> str:
    until = doing.typed.instant("until", "Until")
    changes, name = doing.operator.changes, doing.subject.name
    await changes.pause(name, doing.typed.reason, until, doing.typed.request_key("pause"))
    if held := len(await changes.held(name)):
        doing.notes.append(f"{held} that had not started {'is' if held == 1 else 'are'} held")
    return doing.subject.address


async def _resume(doing: ConfirmedAction) -> str:
    backlog = doing.typed.text("backlog", HeldBacklog.RUN)
    _, count = await doing.operator.changes.resume(
        doing.subject.name,
        doing.typed.reason,
        doing.typed.request_key("resume"),
        backlog=backlog,
    )
    if count:
        what = "skipped" if backlog == HeldBacklog.SKIP else "released"
        doing.notes.append(f"{count} that the pause held {'was' if count == 1 else 'were'} {what}")
    return doing.subject.address


async def _stop(doing: ConfirmedAction) -> str:
    await doing.operator.changes.stop(doing.subject.name, doing.typed.reason, doing.typed.request_key("stop"))
    return doing.subject.address


async def _start(doing: ConfirmedAction) -> str:
    await doing.operator.changes.start(doing.subject.name, doing.typed.reason, doing.typed.request_key("start"))
    return doing.subject.address


async def _remove(doing: ConfirmedAction) -> str:
    await doing.operator.changes.remove(doing.subject.name, doing.typed.reason, doing.typed.request_key("remove"))
    return doing.subject.address


async def _skip(doing: ConfirmedAction) -> str:
    instant = doing.typed.instant("instant", "InstantChoice")
    if instant is None:
        raise ConfigError("choose the occurrence that is to be passed over")
    await doing.operator.changes.skip(doing.subject.name, instant, doing.typed.reason, doing.typed.request_key("skip"))
    return doing.subject.address


async def _backfill(doing: ConfirmedAction) -> str:
    wish = wish_of(doing.typed)
    planned = await doing.preview(wish)
    if not planned.instants:
        raise ConfigError(f"there is nothing to run in that range: {planned.looked_at} instants were looked at")
    doing.backfills.start(doing.operator, wish, planned)
    return backfill_address(doing.typed.key)


async def _cancel(doing: ConfirmedAction) -> str:
    run = doing.subject.run
    assert run is not None, "it is about one"
    if not await doing.operator.requests.cancel(str(run.number), doing.typed.reason):
        raise NodeError(f"{doing.subject.name} has ended already; there is nothing to cancel")
    return doing.subject.address


async def _adjust(doing: ConfirmedAction) -> str:
    run = doing.subject.run
    assert run is not None, "it is about one"
    pairs = [f"{field}={text}" for field in sorted(ADJUSTED_FIELDS) if (text := doing.typed.text(field).strip())]
    await doing.operator.requests.adjust(str(run.number), options_of(pairs), doing.typed.reason)
    return doing.subject.address


async def _replay(doing: ConfirmedAction) -> str:
    run = doing.subject.run
    assert run is not None, "it is about one"
    typed = doing.typed
    again = await doing.operator.requests.replay(
        str(run.number), typed.reason, typed.texts("task") or None, typed.text("version", "original"), typed.key
    )
    return run_url(again.ref)


async def _halt(doing: ConfirmedAction) -> str:
    key = doing.subject.backfill
    assert key is not None, "it is about one"
    if not doing.backfills.stop(key):
        raise NodeError(f"the backfill of {doing.subject.name} has ended already; there is nothing to stop")
    return doing.subject.address


ACTIONS: Final = {
    "trigger": Action(
        title="Run {} now",
        sentence="One run of {} is made, and the next free node starts it. While the job runs, it waits for its turn. "
        "Its schedule stays as it is.",
        done="Asked for a run of {}",
        button="Run now",
        do=_trigger,
    ),
    "pause": Action(
        title="Pause {}",
        sentence="From now on the instants of {} are skipped, and none of them is made up for. What runs goes on; what "
        "has not started is held.",
        done="Paused {}",
        button="Pause",
        do=_pause,
        fields=frozenset({"until"}),
    ),
    "resume": Action(
        title="Resume {}",
        sentence="{} runs again from its next instant on. What was skipped stays skipped.",
        done="Resumed {}",
        button="Resume",
        do=_resume,
        fields=frozenset({"backlog"}),
    ),
    "stop": Action(
        title="Stop {}",
        sentence="Nothing is expected of {} from now on, and nothing recovered, until it is started. "
        "What runs goes on.",
        done="Stopped {}",
        button="Stop",
        do=_stop,
        is_grave=True,
    ),
    "start": Action(
        title="Start {}",
        sentence="The instants of {} are expected again, from now on.",
        done="Started {}",
        button="Start",
        do=_start,
    ),
    "skip": Action(
        title="Skip a run of {}",
        sentence="One occurrence of {} that is still to come is passed over. The others stay.",
        done="One run of {} will be skipped",
        button="Skip it",
        do=_skip,
        fields=frozenset({"instant"}),
    ),
    "backfill": Action(
        title="Backfill {}",
        sentence="Instants of {} that have passed are run, a few at a time, and in order.",
        done="The backfill of {} has begun",
        button="Run them",
        do=_backfill,
        fields=frozenset({"from", "to", "which", "max_active", "version", "do"}),
    ),
    "remove": Action(
        title="Remove {}",
        sentence="{} is taken away: what has not started is cancelled, what runs finishes, its history stays. "
        "Registered again under the same name, it goes on with its next version.",
        done="Removed {}",
        button="Remove",
        do=_remove,
        needs=Scope.ADMIN,
        is_grave=True,
    ),
    "cancel": Action(
        title="Cancel {}",
        sentence="{} is asked to end. What has not started is cancelled at once; what runs is told so, and stopped "
        "if it does not listen.",
        done="Asked {} to end",
        button="Cancel it",
        do=_cancel,
        about=TargetKind.RUN,
        is_grave=True,
    ),
    "adjust": Action(
        title="Adjust {}",
        sentence="{} has not started. These values count for this run alone; what is left empty stays as it is.",
        done="Adjusted {}",
        button="Adjust",
        do=_adjust,
        about=TargetKind.RUN,
        fields=frozenset(ADJUSTED_FIELDS),
    ),
    "replay": Action(
        title="Replay {}",
        sentence="{} is run again, as a new occurrence that is linked to it. While the job runs, it waits for its "
        "turn.",
        done="Replays {}",
        button="Run again",
        do=_replay,
        about=TargetKind.RUN,
        fields=frozenset({"task", "version"}),
    ),
    "halt": Action(
        title="Stop the backfill of {}",
        sentence="No more runs of {} are asked for. Those that were go on, and what has run stays.",
        done="Stopped the backfill of {}",
        button="Stop it",
        do=_halt,
        about=TargetKind.BACKFILL,
        is_grave=True,
    ),
}
"""The actions by the word in their address."""
