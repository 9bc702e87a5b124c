"""`itinerary import-crontab`: converts a crontab to a job file, and reports lines that cannot be translated."""

from __future__ import annotations

import codecs
import os
import pwd
import sys
from pathlib import Path
from typing import Annotated, Final

import click

from itinerary.cli.commands import Argument, Commands, Option
from itinerary.cli.options import errors_told
from itinerary.errors import ConfigError, ItineraryError
from itinerary.jobs.job_file.crontab import Note, translate
from itinerary.jobs.job_file.document import FILE_MAX, read_content
from itinerary.node.shutdown_signals import EXIT_ERROR
from itinerary.schedules import packaged_zone

__all__ = ["add_crontab"]

_SYSTEM: Final = ("/etc/crontab", "/etc/cron.d/")
_STDIN: Final = "-"


def add_crontab(app: Commands) -> None:
    """Add this command to the app."""
    app.add(import_crontab, "import-crontab")


def import_crontab(
    file: Annotated[str, Argument(metavar="FILE", help="A crontab; - is standard input: crontab -l | …")],
    output: Annotated[
        str | None, Option("-o", "--output", metavar="FILE", help="The job file; else standard output.")
    ] = None,
    system: Annotated[
        bool | None,
        Option("--system/--user", help="Whether lines name a user, as in /etc/crontab; else the lines show it."),
    ] = None,
    timezone: Annotated[
        str | None, Option(metavar="ZONE", help="The zone of cron's clock; else that of this machine.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Write over a file that is there.")] = False,  # noqa: FBT002 - a switch
) -> None:
    """Write a crontab as a job file.

    Notes go to standard error, each with its line. The exit code is 1 if a line cannot be translated, such as
    @reboot: the job file has it as a comment, and has everything else.
    """
    with errors_told():
        name = "the crontab" if file == _STDIN else file
        is_system = True if system is None and _is_of_the_system(file) else system
        zone = _zone(timezone)
        accounts = [one.pw_name for one in pwd.getpwall()]
        done = translate(_read(file), name, timezone=zone, is_system=is_system, users=accounts)
        _write(output, done.text, force=force)
    for note in done.notes:
        click.echo(_told(name, note), err=True)
    left_out = sum(note.is_left_out for note in done.notes)
    where = "" if output is None else f" in {output}"
    users = "; each line names a user" if done.is_system else ""
    rest = f"; {left_out} line{'' if left_out == 1 else 's'} not translated" if left_out else ""
    click.echo(f"{name}: {done.jobs} job{'' if done.jobs == 1 else 's'}{where}, {zone}{users}{rest}", err=True)
    if not done.is_whole:
        raise click.exceptions.Exit(EXIT_ERROR)


def _is_of_the_system(file: str) -> bool:
    return file != _STDIN and str(Path(file).absolute()).startswith(_SYSTEM)


def _told(name: str, note: Note) -> str:
    return f"{name}:{note.line}: {'not translated: ' if note.is_left_out else ''}{note.message}"


def _read(file: str) -> str:
    """Return a crontab. Bytes that are not UTF-8 are kept: the translation reports their lines."""
    content = read_content(file) if file != _STDIN else sys.stdin.buffer.read(FILE_MAX + 1)
    if len(content) > FILE_MAX:
        raise ConfigError(f"standard input has more than {FILE_MAX} bytes, which are allowed")
    return content.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")


def _write(output: str | None, text: str, *, force: bool) -> None:
    """Write a new file that only its owner can read: commands may contain secrets (Q7)."""
    if output is None:
        click.echo(text, nl=False)
        return
    if force:
        Path(output).unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigError(f"{output}: this file exists already; name another one, or say --force") from error
    except OSError as error:
        raise ConfigError(f"{output}: it cannot be written: {error.strerror}") from error


def _zone(given: str | None) -> str:
    """Return the given zone, else the zone of this machine, else UTC."""
    if given is not None:
        return packaged_zone(given).name
    for found in (os.environ.get("TZ", "").removeprefix(":"), _linked(Path("/etc/localtime"))):
        try:
            return packaged_zone(found).name
        except ItineraryError:
            continue
    return "UTC"


def _linked(path: Path) -> str:
    """Return `Europe/Berlin` for a link to /usr/share/zoneinfo/Europe/Berlin."""
    try:
        return str(path.readlink()).partition("zoneinfo/")[2]
    except OSError:
        return ""
