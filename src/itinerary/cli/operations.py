"""The commands that change jobs and request runs, directly on a store: none of them needs a node.

    pause, resume, skip               a job's timeline
    trigger, replay, backfill         runs
    cancel, adjust                    one occurrence

Every command prints its effect in a line, or with `--json` as an object. The request is durable when the command ends.
Nodes handle it within a second. If no node runs, the next one handles it at its start.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import click
import msgspec

from itinerary.cli.commands import Argument, Commands, Option
from itinerary.cli.completion import complete_job
from itinerary.cli.list import existing_store
from itinerary.cli.options import AsJson, Store, errors_told, store_url
from itinerary.cli.output import print_json, print_lines, say, screen
from itinerary.cli.progress import progress
from itinerary.cli.run_command import run_command
from itinerary.cli.times import TIMES, TimeZone, instant_of, job_zone
from itinerary.core.recovery.backfill import InstantChoice
from itinerary.core.recovery.pause import HeldBacklog
from itinerary.model.report import OccurrenceReport
from itinerary.model.states import OccurrenceState
from itinerary.node.shutdown_signals import EXIT_ERROR
from itinerary.operations.adjust import options_of
from itinerary.operations.backfill import Backfill, BackfillWish
from itinerary.operations.operator import Operator
from itinerary.read.run_lookup import RunReference
from itinerary.schedules.instants import shown_instant
from itinerary.stores.urls import open_store

__all__ = ["add_commands"]

T = TypeVar("T")

Job = Annotated[str, Argument(metavar="JOB", help="The name of a job.", offers=complete_job)]
RunName = Annotated[
    str, Argument(metavar="RUN", help="An occurrence: its number, its id, or a run id, etl:1767225600.")
]
Reason = Annotated[str | None, Option("--reason", metavar="TEXT", help="Why; it is kept with who and when.")]
RequestKey = Annotated[str | None, Option("--key", metavar="KEY", help="The same key, sent twice, is one request.")]

Wait = Annotated[
    bool, Option("--wait", help="Wait for its end: the exit code is 0 if it completed, and 1 if it did not.")
]


class VersionChoice(StrEnum):
    """The version to run an occurrence again with."""

    ORIGINAL = "original"
    CURRENT = "current"


Version = Annotated[VersionChoice, Option("--version", help="The version it ran with, or the one in force now.")]


def add_commands(app: Commands) -> None:
    """Add these commands to the app."""
    for command in (pause, resume, skip, trigger, cancel, adjust, replay, backfill):
        app.add(command)


def pause(
    job: Job,
    until: Annotated[
        str | None, Option("--until", metavar="TIME", help="When it ends by itself: tomorrow 06:00, in 2h.")
    ] = None,
    tz: TimeZone = None,
    reason: Reason = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Skip a job's instants from now on, until it is resumed. None of them is recovered.

    Runs from before the pause that have not started are held until then.
    """
    with errors_told():

        async def paused(operator: Operator) -> tuple[str, int, int | None]:
            end = None if until is None else _typed(operator, job, "--until", until, tz)
            await operator.changes.pause(job, reason, end)
            return operator.by, len(await operator.changes.held(job)), end

        by, held, end = _asked(store, paused)
        shown = None if end is None else shown_instant(end)
        words = f"paused {job}" if shown is None else f"paused {job} until {shown}"
        words = words if not held else f"{words}, {_counted(held)} held"
        _say(as_json, words, {"job": job, "paused": True, "until": shown, "held": held, "by": by, "reason": reason})


def resume(
    job: Job,
    skip_backlog: Annotated[  # noqa: FBT002 - a switch
        bool, Option("--skip-backlog", help="Skip what the pause held, in place of running it.")
    ] = False,
    reason: Reason = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """End a pause. Without a pause this has no effect. Runs that the pause held start now, unless they are skipped."""
    with errors_told():
        backlog = HeldBacklog.SKIP if skip_backlog else HeldBacklog.RUN

        async def resumed(operator: Operator) -> tuple[str, int]:
            _, count = await operator.changes.resume(job, reason, backlog=backlog)
            return operator.by, count

        by, count = _asked(store, resumed)
        words = f"resumed {job}"
        words = words if not count else f"{words}, {_counted(count)} {'skipped' if skip_backlog else 'released'}"
        key = "skipped" if skip_backlog else "released"
        _say(as_json, words, {"job": job, "paused": False, key: count, "by": by, "reason": reason})


def _counted(count: int) -> str:
    return f"{count} run that had not started" if count == 1 else f"{count} runs that had not started"


def skip(
    job: Job,
    instant: Annotated[str, Argument(metavar="TIME", help="Its instant: tomorrow 05:00, 2026-03-01T05:00.")],
    tz: TimeZone = None,
    reason: Reason = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Skip one upcoming occurrence."""
    with errors_told():

        async def skipped(operator: Operator) -> tuple[str, int]:
            at = _typed(operator, job, "TIME", instant, tz)
            await operator.changes.skip(job, at, reason)
            return operator.by, at

        by, at = _asked(store, skipped)
        shown = shown_instant(at)
        _say(as_json, f"{job} will be skipped at {shown}", {"job": job, "instant": shown, "by": by, "reason": reason})


def trigger(
    job: Job,
    wait: Wait = False,  # noqa: FBT002 - a switch
    key: RequestKey = None,
    reason: Reason = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Run a job now. If another run of the job is in progress, the new one waits for its turn.

    Without --wait the command ends when the request is recorded.
    """
    with errors_told():
        report = _followed(
            store,
            lambda operator: operator.requests.trigger(job, key, {}, reason),
            lambda run: f"triggered {job}: {run.id}",
            is_waiting=wait,
            as_json=as_json,
        )
    _exit_as(report)


def cancel(
    run: RunName,
    reason: Reason = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Cancel an occurrence: at once if it has not started, within `kill_grace` if it runs.

    The exit code is 1 if it has already ended in another state.
    """
    with errors_told():
        is_done = _asked(store, lambda operator: operator.requests.cancel(run, reason))
        words = f"asked {run} to end" if is_done else f"{run} has ended already"
        _say(as_json, words, {"run": run, "cancelled": is_done, "reason": reason})
    if not is_done:
        raise click.exceptions.Exit(EXIT_ERROR)


def adjust(
    run: RunName,
    values: Annotated[
        list[str], Argument(metavar="KEY=VALUE...", help="What to set: priority=9, retry.max_retries=3.")
    ],
    reason: Reason = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Set values on a run that has not started. What is not named stays as it is.

    A run can be adjusted while it is claimed, queued, held by a pause, or waits for a slot or a limit.
    """
    with errors_told():
        options = options_of(values)
        done = _asked(store, lambda operator: operator.requests.adjust(run, options, reason))
        shown = ", ".join(f"{key}={value}" for key, value in done.values.items())
        told = {**_told(done.run), "values": done.values, "reason": reason}
        _say(as_json, f"adjusted {run}: {shown}", told)


def replay(
    run: RunName,
    tasks: Annotated[
        list[str] | None, Option("--task", metavar="NAME", help="Only this task; may be given several times.")
    ] = None,
    version: Version = VersionChoice.ORIGINAL,
    wait: Wait = False,  # noqa: FBT002 - a switch
    key: RequestKey = None,
    reason: Reason = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Run an occurrence again, or some tasks of it: a new occurrence, linked to the old one.

    If another run of the job is in progress, the new one waits for its turn. Without --wait the command ends when the
    request is recorded.
    """
    with errors_told():
        report = _followed(
            store,
            lambda operator: operator.requests.replay(run, reason, tasks or None, version.value, key),
            lambda again: f"replays {run}: {again.id}",
            is_waiting=wait,
            as_json=as_json,
        )
    _exit_as(report)


def backfill(  # noqa: PLR0913, PLR0917 - what a backfill may say
    job: Job,
    since: Annotated[str, Option("--from", "--since", metavar="TIME", help=f"From when on: {TIMES}.")],
    until: Annotated[str, Option("--to", "--until", metavar="TIME", help="Before when; it must be past.")],
    which: Annotated[InstantChoice, Option(help="What nothing ran for, what failed, or all.")] = InstantChoice.MISSING,
    max_active: Annotated[
        int, Option(help='How many may be under way at a time; more than one needs overlap = "allow".')
    ] = 1,
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would run.")] = False,  # noqa: FBT002 - a switch
    version: Version = VersionChoice.ORIGINAL,
    tz: TimeZone = None,
    key: RequestKey = None,
    reason: Reason = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Run a job's instants of the past again, or for the first time, and wait until they have ended.

    The command can be interrupted: the created runs stay. With a --key the same command resumes where it stopped.
    Without a key it is a new request. `missing` leaves out instants that have run since. `failed` retries those that
    failed again. `all` runs everything again. The exit code is 1 if something did not complete.
    """
    with errors_told():

        async def backfilled(operator: Operator) -> Backfill:
            wish = BackfillWish(
                start=_typed(operator, job, "--from", since, tz),
                end=_typed(operator, job, "--to", until, tz),
                which=which,
                max_active=max_active,
                reason=reason,
                key=key,
                version=version.value,
            )
            return await _backfilled(operator, job, wish, is_dry=dry_run)

        done = _asked(store, backfilled)
        _say(as_json, _words(done), _plain(done))
    if any(state is not OccurrenceState.COMPLETED for state in done.ended):
        raise click.exceptions.Exit(EXIT_ERROR)


async def _backfilled(operator: Operator, job: str, wish: BackfillWish, *, is_dry: bool) -> Backfill:
    if (warning := operator.requests.one_at_a_time(job, wish)) is not None:
        say(f"warning: {warning}", screen(errors=True))
    if is_dry:
        return await operator.requests.backfill(job, wish, None, is_dry=True)
    if not await operator.has_nodes():
        say("no node runs on this store; what is asked for waits for one", screen(errors=True))
    with progress(f"backfill {job}") as handle:
        return await operator.requests.backfill(
            job, wish, lambda far: handle(len(far.instants) - far.left, len(far.instants))
        )


def _words(done: Backfill) -> str:
    if done.is_dry:
        lines = [f"would run {len(done.instants)} of {done.looked_at} instants of {done.job}"]
        return "\n".join([*lines, *(f"  {instant.isoformat()}" for instant in done.instants)])
    ended = ", ".join(f"{count} {state}" for state, count in done.ended.items()) or "nothing to do"
    return f"backfilled {done.job}: {ended}; {done.looked_at} instants looked at"


def _plain(done: Backfill) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(done)
    return told


def _told(run: RunReference) -> dict[str, object]:
    return {"job": run.job, "id": str(run.id), "run": run.run_id, "kind": run.key.kind.value}


# -- following a run -------------------------------------------------------------------------------------------------


def _followed(
    url: str | None,
    ask: Callable[[Operator], Awaitable[RunReference]],
    words: Callable[[RunReference], str],
    *,
    is_waiting: bool,
    as_json: bool,
) -> OccurrenceReport | None:
    """Request a run, and print the request. Return the report if the command waits for the end, and None if not."""

    async def asking(operator: Operator) -> OccurrenceReport | None:
        run = await ask(operator)
        if not is_waiting:
            _say(as_json, words(run), _told(run))
            return None
        if not as_json:
            print_lines(words(run))
        if not await operator.has_nodes():
            say("no node runs on this store; the run waits for one", screen(errors=True))
        report = await operator.requests.wait(run)
        _say(as_json, _ended(run, report), {**_told(run), "outcome": report.outcome.value, "why": _why(report)})
        return report

    return _asked(url, asking)


def _ended(run: RunReference, report: OccurrenceReport) -> str:
    took = "" if report.duration is None else f" after {report.duration.total_seconds():.1f} s"
    why = _why(report)
    return f"{run.job} {report.outcome}{took}{'' if why is None else f': {why}'}"


def _why(report: OccurrenceReport) -> str | None:
    """Return why a run did not complete."""
    return None if report.outcome is OccurrenceState.COMPLETED else report.reason


def _exit_as(report: OccurrenceReport | None) -> None:
    if report is not None and report.outcome is not OccurrenceState.COMPLETED:
        raise click.exceptions.Exit(EXIT_ERROR)


# -- helpers ---------------------------------------------------------------------------------------------------------


def _typed(operator: Operator, job: str, option: str, text: str, tz: str | None) -> int:
    """Return a typed time in microseconds."""
    return instant_of(option, text, now=operator.view.now(), zone=job_zone(operator.view, job, tz))


def _asked(url: str | None, ask: Callable[[Operator], Awaitable[T]]) -> T:
    async def asking() -> T:
        place = store_url(url)
        await existing_store(place)
        async with open_store(place) as store:
            return await ask(await Operator.at(store))

    return run_command(asking())


def _say(as_json: bool, words: str, told: Mapping[str, object]) -> None:  # noqa: FBT001 - a switch of the command's
    if as_json:
        print_json(told)
        return
    print_lines(words)
