"""The commands by which people change jobs and ask for runs, on a store: no node is needed for any of them.

    pause, resume, skip               a job's timeline
    trigger, replay, backfill         runs
    cancel                            one occurrence

Each says in a line what it did, or with `--json` as an object. What is asked is durable when the command ends; nodes
hear of it within a second, and if none runs it holds when the next one comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from itinerary.app.backfills import Backfill, BackfillWish
from itinerary.app.occurrences import Run
from itinerary.app.operators import Operator
from itinerary.app.signals import EXIT_ERROR
from itinerary.cli.bars import progress
from itinerary.cli.completing import complete_job
from itinerary.cli.output import print_json, print_lines, say, screen
from itinerary.cli.shared import AsJson, Store, errors_told, instant_of, store_url
from itinerary.core.backfilling import Which
from itinerary.model.states import OccurrenceState
from itinerary.schedules.instants import shown_instant
from itinerary.stores.opening import open_store

__all__ = ["add_commands"]

T = TypeVar("T")

Job = Annotated[str, typer.Argument(metavar="JOB", help="The name of a job.", autocompletion=complete_job)]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="An occurrence: its id, or a run id, etl:1767225600.")]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; it is kept with who and when.")]
RequestKey = Annotated[
    str | None, typer.Option("--key", metavar="KEY", help="The same key, sent twice, is one request.")
]


class VersionChoice(StrEnum):
    """What something is run again as."""

    ORIGINAL = "original"
    CURRENT = "current"


Version = Annotated[VersionChoice, typer.Option("--version", help="The version it ran with, or the one in force now.")]


def add_commands(app: typer.Typer) -> None:
    """Add these commands to the others."""
    for command in (pause, resume, skip, trigger, cancel, replay, backfill):
        app.command()(command)


def pause(
    job: Job,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="When it ends by itself: 2026-03-01T00:00:00Z.")
    ] = None,
    reason: Reason = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Skip a job's instants from now on, until it is resumed. None of them is recovered."""
    with errors_told():
        end = None if until is None else instant_of("--until", until)
        by = _asked(store, lambda operator: _then(operator.changes.pause(job, reason, end), operator.by))
        shown = None if end is None else shown_instant(end)
        words = f"paused {job}" if shown is None else f"paused {job} until {shown}"
        _say(as_json, words, {"job": job, "paused": True, "until": shown, "by": by, "reason": reason})


def resume(
    job: Job,
    reason: Reason = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """End a pause. Without one it has no effect."""
    with errors_told():
        by = _asked(store, lambda operator: _then(operator.changes.resume(job, reason), operator.by))
        _say(as_json, f"resumed {job}", {"job": job, "paused": False, "by": by, "reason": reason})


def skip(
    job: Job,
    instant: Annotated[str, typer.Argument(metavar="TIME", help="Its instant: 2026-03-01T05:00:00Z.")],
    reason: Reason = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Pass over one occurrence that is to come."""
    with errors_told():
        at = instant_of("TIME", instant)
        by = _asked(store, lambda operator: _then(operator.changes.skip(job, at, reason), operator.by))
        shown = shown_instant(at)
        _say(as_json, f"{job} will be skipped at {shown}", {"job": job, "instant": shown, "by": by, "reason": reason})


def trigger(
    job: Job,
    key: RequestKey = None,
    reason: Reason = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Have a job run now."""
    with errors_told():
        run = _asked(store, lambda operator: operator.requests.trigger(job, key, {}, reason))
        _say(as_json, f"triggered {job}: {run.id}", _told(run))


def cancel(
    run: RunName,
    reason: Reason = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Ask an occurrence to end: what has not started is cancelled at once, what runs within `kill_grace`.

    The exit code is 1 if it has ended otherwise already.
    """
    with errors_told():
        is_done = _asked(store, lambda operator: operator.requests.cancel(run, reason))
        words = f"asked {run} to end" if is_done else f"{run} has ended already"
        _say(as_json, words, {"run": run, "cancelled": is_done, "reason": reason})
    if not is_done:
        raise typer.Exit(EXIT_ERROR)


def replay(
    run: RunName,
    tasks: Annotated[
        list[str] | None, typer.Option("--task", metavar="NAME", help="Only this task; may be given several times.")
    ] = None,
    version: Version = VersionChoice.ORIGINAL,
    key: RequestKey = None,
    reason: Reason = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Run an occurrence again, or some tasks of it: a new occurrence, linked to the old one."""
    with errors_told():
        again = _asked(store, lambda operator: operator.requests.replay(run, reason, tasks or None, version.value, key))
        _say(as_json, f"replays {run}: {again.id}", _told(again))


def backfill(  # noqa: PLR0913, PLR0917 - what a backfill may say
    job: Job,
    since: Annotated[str, typer.Option("--from", "--since", metavar="TIME", help="From when on.")],
    until: Annotated[str, typer.Option("--to", "--until", metavar="TIME", help="Before when; it must be past.")],
    which: Annotated[Which, typer.Option(help="What nothing ran for, what failed, or all.")] = Which.MISSING,
    max_active: Annotated[int, typer.Option(help="How many may be under way at a time.")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run.")] = False,  # noqa: FBT002 - a switch
    version: Version = VersionChoice.ORIGINAL,
    key: RequestKey = None,
    reason: Reason = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Run a job's instants of the past again, or for the first time, and wait until they have ended.

    It can be interrupted, and what was made stays. With a --key the same command goes on where it was; without one it
    is a new request: missing leaves out what has run by now, failed tries again what failed again, and all runs
    everything again. The exit code is 1 if something did not complete.
    """
    with errors_told():
        wish = BackfillWish(
            start=instant_of("--from", since),
            end=instant_of("--to", until),
            which=which,
            max_active=max_active,
            reason=reason,
            key=key,
            version=version.value,
        )
        done = _asked(store, lambda operator: _backfilled(operator, job, wish, is_dry=dry_run))
        _say(as_json, _words(done), _plain(done))
    if any(state is not OccurrenceState.COMPLETED for state in done.ended):
        raise typer.Exit(EXIT_ERROR)


async def _backfilled(operator: Operator, job: str, wish: BackfillWish, *, is_dry: bool) -> Backfill:
    if is_dry:
        return await operator.requests.backfill(job, wish, None, is_dry=True)
    if not await operator.has_nodes():
        say("no node runs on this store; what is asked for waits for one", screen(errors=True))
    with progress(f"backfill {job}") as hear:
        return await operator.requests.backfill(
            job, wish, lambda far: hear(len(far.instants) - far.left, len(far.instants))
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


def _told(run: Run) -> dict[str, object]:
    return {"job": run.job, "id": str(run.id), "run": run.run_id, "kind": run.key.kind.value}


# -- all of them -----------------------------------------------------------------------------------------------------


def _asked(url: str | None, ask: Callable[[Operator], Awaitable[T]]) -> T:
    async def asking() -> T:
        async with open_store(store_url(url)) as store:
            return await ask(await Operator.at(store))

    return asyncio.run(asking())


async def _then(call: Awaitable[object], answer: T) -> T:
    await call
    return answer


def _say(as_json: bool, words: str, told: Mapping[str, object]) -> None:  # noqa: FBT001 - a switch of the command's
    if as_json:
        print_json(told)
        return
    print_lines(words)
