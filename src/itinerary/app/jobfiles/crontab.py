"""A crontab, written as a job file (U2).

    0 3 * * *  pg_dump db        [jobs.pg_dump]  schedule = "0 3 * * *"  and a task  ["/bin/sh", "-c", "pg_dump db"]

    SHELL                 the program that runs the commands below it
    CRON_TZ               the time zone of the jobs below it
    HOME                  the working directory, and a variable, of the commands below it
    MAILTO, RANDOM_DELAY  nothing: told
    any other             a variable of the commands below it, as it stands: cron expands nothing either
    %                     the first begins the command's input, the others end its lines; `\\%` is a percent sign
    @reboot               nothing: told. A node's start is not the machine's
    the user              nothing: told. Who a task runs as is for the node's operator to say (Q7)

The jobs keep cron's ways, so that nothing behaves otherwise the morning after: runs may overlap, what was missed stays
missed, and nothing is ended because it takes long. All of that stands in one place, `[defaults]`, to be improved upon.
What cannot be translated is left out, stands in the file as a comment, and is told with its line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

import msgspec

from itinerary.app.jobfiles import writing
from itinerary.errors import ConfigError, ItineraryError
from itinerary.executors.definitions import read_shell
from itinerary.model.text import shown
from itinerary.schedules import cron, packaged_zone

__all__ = ["Note", "Translated", "translate"]

_VARIABLE: Final = re.compile(r"""(?:"([^"]*)"|'([^']*)'|([A-Za-z_][A-Za-z0-9_]*))\s*=\s*(.*)""", re.DOTALL)
_LINE_END: Final = re.compile(r"\\%|%")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_NAME_MAX: Final = 60
_WITH_INPUT: Final = """printf '%s\\n' "$2" | "$0" -c "$1\""""
# fmt: off
_WRAPPERS: Final = frozenset({
    "[", "bash", "cd", "chronic", "command", "dash", "env", "exec", "flock", "ionice", "java", "ksh",
    "nice", "node", "nohup", "perl", "php", "python", "python2", "python3", "root", "ruby", "setsid", "sh",
    "sleep", "sudo", "systemd-cat", "test", "time", "timeout", "zsh",
})
# fmt: on
"""Commands that say little about what a job is for."""
_HEADER: Final = (
    "cron starts commands in the home directory of their user, with a PATH of /usr/bin:/bin and hardly any other",
    "variables. A node's tasks have the node's own directory and environment: set cwd and env where that matters.",
)
_DEFAULTS: Final = """\
# As cron does it. Take a line away, and the better way counts that Itinerary has by itself.
[defaults]
overlap = "allow"               # a run begins though the one before still runs; "skip" and "queue" prevent that
recovery = "mark_as_missed"     # what was due while nothing ran is not made up for; "execute_last" does it once
task_timeout = "7d"             # nothing is ended because it takes long
execution_timeout = "7d"
"""


class Note(msgspec.Struct, frozen=True):
    """Something that a person should know about a line."""

    line: int
    message: str
    is_left_out: bool = False
    """Whether the line is not in the job file."""


class Translated(msgspec.Struct, frozen=True):
    """A crontab as a job file."""

    text: str
    jobs: int
    is_system: bool
    """Whether its lines were taken to name users."""
    notes: tuple[Note, ...]

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out."""
        return not any(note.is_left_out for note in self.notes)


def translate(text: str, name: str, *, timezone: str, is_system: bool | None = None) -> Translated:
    """The job file that does what a crontab does. `timezone` is the one of the machine. `is_system`: whether lines name
    a user; None: if they all name root, they do."""
    lines = text.replace("\r\n", "\n").split("\n")
    named = _names_users(lines) if is_system is None else is_system
    return _Translator(name, timezone, is_system=named).translated(lines)


class _State(msgspec.Struct):
    """What holds for the lines below."""

    shell: str = "/bin/sh"
    timezone: str | None = None
    cwd: str | None = None
    env: dict[str, str] = {}


class _Translator:
    """Goes through a crontab once."""

    def __init__(self, name: str, timezone: str, *, is_system: bool) -> None:
        self._is_system, self._state = is_system, _State()
        self._notes: list[Note] = []
        self._names: set[str] = set()
        self._users: set[str] = set()
        self._comments: list[str] = []
        head = [writing.comment(line) for line in (f"Made from {name} by `itinerary import-crontab`.", *_HEADER)]
        zone = f"timezone = {writing.text(timezone)}".ljust(31) + " # cron goes by the clock of the machine"
        self._text = [*head, "", zone, "", _DEFAULTS]

    def translated(self, lines: list[str]) -> Translated:
        for number, line in enumerate(lines, 1):
            self._take(number, line.strip(" \t"))
        self._text += ["", *self._comments]
        return Translated(
            "\n".join(self._text).rstrip("\n") + "\n", len(self._names), self._is_system, tuple(self._notes)
        )

    def _take(self, number: int, line: str) -> None:
        if not line:
            if self._comments and self._comments[-1]:
                self._comments.append("")
        elif line.startswith("#"):
            self._comments.append(writing.comment(line.lstrip("#").strip()))
        elif (found := _VARIABLE.fullmatch(line)) is not None:
            self._set(number, found[1] or found[2] or found[3] or "", _unquoted(found[4].strip(" \t")))
        else:
            try:
                self._add_job(number, line)
            except ItineraryError as error:
                self._leave_out(number, line, str(error))

    def _leave_out(self, number: int, line: str, why: str) -> None:
        self._notes.append(Note(number, why, is_left_out=True))
        self._comments += [writing.comment(f"Not translated, line {number}: {why}"), writing.comment(line), ""]

    # -- variables ---------------------------------------------------------------------------------------------------

    def _set(self, number: int, name: str, value: str) -> None:
        match name:
            case "SHELL":
                self._state.shell = value or "/bin/sh"
            case "CRON_TZ":
                self._set_zone(number, value)
            case "MAILTO" | "MAILFROM":
                if value:
                    told = f"{name}={value}: nothing is mailed; output is kept with each run"
                    self._notes.append(Note(number, told))
            case "RANDOM_DELAY":
                told = f"{name}={value}: nothing is delayed; add jitter = {writing.text(value + 'm')} to a schedule"
                self._notes.append(Note(number, told))
            case _:
                self._state.env = {**self._state.env, name: value}
                if name == "HOME":
                    self._state.cwd = value or None

    def _set_zone(self, number: int, value: str) -> None:
        try:
            self._state.timezone = packaged_zone(value).name if value else None
        except ItineraryError as error:
            self._notes.append(
                Note(number, f"CRON_TZ: {error} The lines below keep the zone that they had", is_left_out=True)
            )

    # -- jobs --------------------------------------------------------------------------------------------------------

    def _add_job(self, number: int, line: str) -> None:
        schedule, user, command = self._parts(line)
        if schedule == "@reboot":
            raise ConfigError(
                '@reboot is when the machine starts, which no node knows; with schedule = "@reboot" it would run at '
                "each start of a node"
            )
        cron(schedule)  # refuses what cannot be
        run, given = _split_input(command)
        run = run.rstrip(" \t")
        if not run:
            raise ConfigError("there is no command on this line")
        shell = self._state.shell
        arguments = ["/bin/sh", "-c", _WITH_INPUT, shell, run, given] if given else [shell, "-c", run]
        definition: dict[str, object] = {"shell": arguments, "env": self._state.env}
        if self._state.cwd is not None:
            definition["cwd"] = self._state.cwd
        read_shell(definition)
        if user is not None and user not in self._users:
            self._users.add(user)
            told = f"cron ran this as {shown(user)}, and a task runs as its node does: start a node as that user"
            self._notes.append(Note(number, told))
        self._write(number, schedule, user, run, arguments)

    def _parts(self, line: str) -> tuple[str, str | None, str]:
        fields = 1 if line.startswith("@") else 5
        parts = line.split(None, fields)
        if len(parts) <= fields:
            raise ConfigError("this is neither a comment, nor a variable, nor a schedule with a command")
        schedule, rest = " ".join(parts[:fields]), parts[fields]
        if not self._is_system:
            return schedule, None, rest
        match rest.split(None, 1):
            case [user, command]:
                return schedule, user, command
            case _:
                raise ConfigError("there is no command after the user on this line")

    def _write(self, number: int, schedule: str, user: str | None, command: str, arguments: list[str]) -> None:
        name = self._unique(_name_of(command))
        ran_as = "" if user is None else f", as {user}"
        lines = ["", *self._comments, f"[jobs.{writing.key(name)}]", f"schedule = {writing.text(schedule)}"]
        if self._state.timezone is not None:
            lines.append(f"timezone = {writing.text(self._state.timezone)}")
        lines += ["", f"[[jobs.{writing.key(name)}.tasks]]", 'name = "run"']
        lines += [writing.comment(f"line {number} of the crontab{ran_as}"), f"shell = {writing.text_list(arguments)}"]
        if self._state.cwd is not None:
            lines.append(f"cwd = {writing.text(self._state.cwd)}")
        if self._state.env:
            lines.append(f"env = {writing.inline_table(self._state.env)}")
        self._text += lines
        self._comments = []

    def _unique(self, name: str) -> str:
        found, number = name, 1
        while found in self._names:
            number += 1
            found = f"{name}-{number}"
        self._names.add(found)
        return found


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _split_input(command: str) -> tuple[str, str]:
    """The command, and what it is given to read."""
    run, given, at = "", None, 0
    for found in _LINE_END.finditer(command):
        before, at = command[at : found.start()], found.end()
        if found[0] == "%" and given is None:
            run, given = run + before, ""
            continue
        added = before + ("\n" if found[0] == "%" else "%")
        run, given = (run + added, None) if given is None else (run, given + added)
    rest = command[at:]
    return (run + rest, "") if given is None else (run, (given + rest).removesuffix("\n"))


def _names_users(lines: list[str]) -> bool:
    """Whether every line that has a schedule goes on with `root` and a command: a command of that name there is not."""
    found = [rest for line in lines if (rest := _rest_of(line.strip(" \t"))) is not None]
    return bool(found) and all(rest[:1] == ["root"] and len(rest) > 1 for rest in found)


def _rest_of(line: str) -> list[str] | None:
    """The words after the schedule; None if this is no job."""
    if not line or line.startswith("#") or _VARIABLE.fullmatch(line):
        return None
    return line.split()[1 if line.startswith("@") else 5 :]


def _name_of(command: str) -> str:
    """What a job may be called: the first word of its command that says something."""
    words = list(_words(command))
    telling = [word for word in words if word not in _WRAPPERS]
    return (telling or words or ["job"])[0]


def _words(command: str) -> Iterator[str]:
    after_cd = re.sub(r"^\s*cd\s+\S+\s*(?:&&|;)", "", command)
    try:
        words = shlex.split(after_cd, posix=True)
    except ValueError:
        words = after_cd.split()
    for word in words:
        if _ASSIGNMENT.match(word) or word.startswith("-"):
            continue
        name = word.rstrip("/").rpartition("/")[2]
        name = _NOT_IN_NAMES.sub("-", re.sub(r"\.(?:sh|py|pl|php|rb|js|jar)$", "", name)).strip("-_")[:_NAME_MAX]
        if name and not name.isdigit():
            yield name
