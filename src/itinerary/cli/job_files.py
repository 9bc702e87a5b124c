"""Commands for job files: check one, show its changes, apply them.

    itinerary check jobs.toml     every mistake with its file, line and key; else its jobs, with schedules in words
    itinerary plan jobs.toml      the changes in a store: jobs that are new or different, and which occurrences
    itinerary apply jobs.toml     the same changes, made in one transaction

Jobs that the file declared earlier and no longer declares are stopped, removed (`--prune`) or kept (`--keep`).

Every command that takes a job file also takes an app: jobs declared in Python can be planned and applied, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

import click
import msgspec

from itinerary.api import Diff, Itinerary
from itinerary.cli.commands import Argument, Commands, Option
from itinerary.cli.load_app import load_app
from itinerary.cli.options import AsJson, Store, errors_told
from itinerary.cli.output import counted, print_json, say, screen
from itinerary.cli.run_command import run_command
from itinerary.config.alerts import reachable
from itinerary.errors import ConfigError, JobFileError
from itinerary.jobs.job_file import FileProblem
from itinerary.jobs.undeclared import JobSource
from itinerary.model.policies import Undeclared, UpdatePolicy
from itinerary.node.shutdown_signals import EXIT_ERROR
from itinerary.operations.apply import AppliedJob, ApplyOptions, ApplyResult, JobApplyResult, apply_jobs
from itinerary.operations.operator import local_user
from itinerary.stores.urls import open_store

__all__ = ["Keep", "Prune", "add_job_files", "undeclared_choice"]

_OTHERS_SHOWN: Final = 20
_INSTANTS_SHOWN: Final = 3
"""The number of instants of each kind that are shown. The others are counted."""

Target = Annotated[str, Argument(metavar="FILE", help="A job file, jobs.toml; or an app, as `up` takes it.")]
Policy = Annotated[UpdatePolicy | None, Option(help="When a change counts; else what the setting update_policy says.")]
Window = Annotated[
    str | None, Option(metavar="N|TIME", help="How far ahead occurrences are compared: 100, or 7d; else a day.")
]
Remove = Annotated[
    list[str] | None,
    Option("--remove", metavar="JOB", help="Remove this job, which is not in the file; may be given several times."),
]
Prune = Annotated[bool, Option("--prune", help="Remove jobs that the file declared and no longer declares.")]
Keep = Annotated[bool, Option("--keep", help="Keep jobs that the file declared and no longer declares.")]
Reason = Annotated[str | None, Option("--reason", metavar="TEXT", help="Why; it is kept with who and when.")]


def add_job_files(app: Commands) -> None:
    """Add these commands to the app."""
    for command in (check, plan, apply):
        app.add(command)


def check(
    file: Target,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Is a job file right? Nothing is stored, and no code that it names is run.

    Each mistake is a line with file, line and key, and the exit code is 1. Otherwise its jobs are shown. A receiver of
    alerts that cannot be reached from here is a warning.
    """
    with errors_told():
        try:
            found, _ = load_app(file)
        except JobFileError as error:
            _print_mistakes(file, error, as_json=as_json)
            raise click.exceptions.Exit(EXIT_ERROR) from error
    warnings = [*_warnings(found), *_undeliverable(file, found)]
    if as_json:
        told = {"file": file, "jobs": list(_jobs(found)), "errors": [], "warnings": [_plain(one) for one in warnings]}
        print_json(told)
        return
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    console = screen()
    say(f"{file}: {counted(len(found), 'job')}, no mistakes", console, hanging=2)
    for job in _jobs(found):
        say(f"{job['job']}: {job['schedule']}; {', '.join(job['tasks'])}", console, indent=2, hanging=4)


def plan(
    file: Target,
    policy: Policy = None,
    window: Window = None,
    remove: Remove = None,
    prune: Prune = False,  # noqa: FBT002 - a switch
    keep: Keep = False,  # noqa: FBT002 - a switch
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Which occurrences would a job file add and remove? Nothing is changed.

    Jobs that the file declared earlier and no longer declares are shown with their treatment: `--prune`, `--keep` or
    the setting `undeclared` decides. Jobs of other files stay as they are. `--remove` shows the effect of removing one.
    """
    wanted = _Wanted(policy, window, remove, None, undeclared_choice(prune=prune, keep=keep))
    _applied(file, wanted, store, as_json=as_json, is_plan=True)


def apply(  # noqa: PLR0913, PLR0917 - the options of a command
    file: Target,
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would change, as `plan` does.")] = False,  # noqa: FBT002 - a switch
    policy: Policy = None,
    window: Window = None,
    remove: Remove = None,
    prune: Prune = False,  # noqa: FBT002 - a switch
    keep: Keep = False,  # noqa: FBT002 - a switch
    reason: Reason = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Bring a store to what a job file says, in one transaction. Applied twice, it changes nothing.

    Jobs that the file declared earlier and no longer declares are stopped. `--prune` removes them, `--keep` keeps them,
    and the setting `undeclared` decides if neither is given. Jobs of other files stay as they are, unless `--remove`
    names them. No node is needed; those that run hear of it within a second. Nodes must be able to import the functions
    that the file names.
    """
    wanted = _Wanted(policy, window, remove, reason, undeclared_choice(prune=prune, keep=keep))
    _applied(file, wanted, store, as_json=as_json, is_plan=dry_run)


class _Wanted(NamedTuple):
    """The options that `plan` and `apply` share."""

    policy: UpdatePolicy | None
    window: str | None
    remove: list[str] | None
    reason: str | None
    undeclared: Undeclared | None


def undeclared_choice(*, prune: bool, keep: bool) -> Undeclared | None:
    """Return the choice of the options for undeclared jobs. None: the setting decides."""
    if prune and keep:
        with errors_told():
            raise ConfigError("--prune and --keep contradict each other; give one of them")
    if prune:
        return Undeclared.REMOVE
    return Undeclared.KEEP if keep else None


def _applied(file: str, wanted: _Wanted, store: str | None, *, as_json: bool, is_plan: bool) -> None:
    with errors_told():
        found, _ = load_app(file)
        found.reconfigure(store=store, undeclared=wanted.undeclared)
        configuration = found.configuration
        undeclared = Undeclared.STOP if configuration.undeclared is None else configuration.undeclared
        wish = ApplyOptions(
            policy=configuration.settings.update_policy if wanted.policy is None else wanted.policy,
            reason=wanted.reason,
            window=_window(wanted.window),
            remove=tuple(wanted.remove or ()),
            home=None if found.source is None else JobSource(found.source, undeclared),
        )
        done = run_command(_ask(found, wish, is_plan=is_plan))
    if as_json:
        print_json(_as_json(done))
    else:
        _print(done, file)


async def _ask(found: Itinerary, wish: ApplyOptions, *, is_plan: bool) -> ApplyResult:
    async with open_store(found.configuration.store) as store:
        return await apply_jobs(
            store, found.declared, wish, by=local_user(), zone_data=found.zone_data, is_plan=is_plan
        )


def _window(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= 9 else text


def _print_mistakes(file: str, error: JobFileError, *, as_json: bool) -> None:
    if as_json:
        mistakes = [_plain(one) for one in error.problems]
        print_json({"file": file, "jobs": [], "errors": mistakes, "warnings": []})
    else:
        click.echo(str(error), err=True)


def _warnings(found: Itinerary) -> list[FileProblem]:
    return [] if found.job_file is None else found.job_file.warnings(list(found.declared.values()))


def _undeliverable(file: str, found: Itinerary) -> list[FileProblem]:
    """Return the receivers of alerts that cannot be reached from here."""
    configuration = found.configuration
    if not configuration.alert_urls:
        return []
    tested = run_command(reachable(configuration))
    return [FileProblem(file, None, "alert_urls", one.sentence) for one in tested if one.why is not None]


def _jobs(found: Itinerary) -> Iterator[dict[str, Any]]:
    for name, declaration in found.declared.items():
        definition = declaration.definition(registered_at=0)
        yield {"job": name, "schedule": str(found[name].schedule), "tasks": [task.name for task in definition.tasks]}


def _plain(problem: object) -> dict[str, Any]:
    assert isinstance(problem, FileProblem), "a job file has no others"
    return problem._asdict()


# -- output for people -------------------------------------------------------------------------------------------------


def _print(done: ApplyResult, file: str) -> None:
    console = screen()
    for one in done.defaults:
        say(f"defaults: {one.key}: {one.before} -> {one.after}, in {counted(one.jobs, 'job')}", console, hanging=2)
    for job in done.jobs:
        if job.outcome is not JobApplyResult.SAME:
            say(_headline(job), console, hanging=2)
            for line in _lines(job):
                say(line, console, indent=2, hanging=4)
    say(_summary(done), console, hanging=2)
    others = [name for name in done.others if name not in done.undeclared]
    if done.undeclared:
        kept = f"no longer in {file}, and kept: {_named(done.undeclared)}; --prune removes them"
        say(kept, console, hanging=2)
    if others:
        say(f"not in the file, and left as they are: {_named(others)}", console, hanging=2)


def _named(names: Sequence[str]) -> str:
    more = len(names) - _OTHERS_SHOWN
    return ", ".join(names[:_OTHERS_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _headline(job: AppliedJob) -> str:
    match job.outcome:
        case JobApplyResult.NEW:
            return f"{job.job}: new, {job.schedule}"
        case JobApplyResult.REMOVED | JobApplyResult.STOPPED | JobApplyResult.STARTED:
            return f"{job.job}: {job.outcome}" + (f", {job.why}" if job.why else "")
        case _:
            return f"{job.job}: version {job.version}{'' if job.diff is None else _since(job.diff)}"


def _since(diff: Diff) -> str:
    first = f", first run {_shown(diff.first_at)}" if diff.policy.is_graceful and diff.first_at else ""
    return f", from {_shown(diff.effective_from)} on{first}"


def _lines(job: AppliedJob) -> Iterator[str]:
    yield from job.differences
    if job.diff is None:
        return
    yield from _instants("+", job.diff.added)
    yield from _instants("-", job.diff.removed)
    yield _counted(job.diff)


def _instants(sign: str, instants: tuple[datetime, ...]) -> Iterator[str]:
    yield from (f"{sign} {_shown(instant)}" for instant in instants[:_INSTANTS_SHOWN])
    if len(instants) > _INSTANTS_SHOWN:
        yield f"{sign} … and {len(instants) - _INSTANTS_SHOWN} more"


def _counted(diff: Diff) -> str:
    added, removed, kept = len(diff.added), len(diff.removed), len(diff.kept)
    return f"until {_shown(diff.window_end)}: {counted(added, 'occurrence')} added, {removed:,} removed, {kept:,} kept"


def _summary(done: ApplyResult) -> str:
    if not done.is_change:
        return f"nothing changes: {counted(len(done.jobs), 'job')} the same"
    counts = {outcome: done.count(outcome) for outcome in JobApplyResult}
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    return f"{'applied' if done.is_applied else 'would be applied'}: {told}"


def _shown(instant: datetime | None) -> str:
    return "now" if instant is None else instant.isoformat().replace("+00:00", "Z")


# -- output for programs -----------------------------------------------------------------------------------------------


def _as_json(done: ApplyResult) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(done)
    return {
        **told,
        "is_change": done.is_change,
        "counts": {outcome.value: done.count(outcome) for outcome in JobApplyResult},
    }
