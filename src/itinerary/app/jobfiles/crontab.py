"""A crontab, written as a job file (U2).

    0 3 * * *  pg_dump db        [jobs.pg_dump]  schedule = "0 3 * * *"  and a task  ["/bin/sh", "-c", "pg_dump db"]

    SHELL                 the program that runs the commands below it
    CRON_TZ               the time zone of the jobs below it
    HOME                  the working directory, and a variable, of the commands below it
    MAILTO, RANDOM_DELAY  nothing: told
    any other             a variable of the commands below it, as it stands: cron expands nothing either. Variables that
                          all commands share stand once, in `[defaults] env`
    %                     the first begins the command's `input`, the others end its lines; `\\%` is a percent sign
    @reboot               nothing: told. A node's start is not the machine's
    the user              nothing: told. Who a task runs as is for the node's operator to say (Q7)

A job is named by the comment above it, if that comment is about this line alone; else by its script. Jobs that would
share a name get a digest of their line. So a name depends on no other line's place, and a job keeps its history when
lines are moved.

The jobs keep cron's ways, so that nothing behaves otherwise the morning after: runs may overlap, what was missed stays
missed, and nothing is ended because it takes long. All of that stands in one place, `[defaults]`, to be improved upon.
What cannot be translated is left out, stands in the file as a comment, and is told with its line.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator
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
execution_timeout = "7d"        # nothing is ended because it takes long
"""
_USER: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}\$?")
_USERS: Final = frozenset({
    "apache", "git", "gitlab-runner", "jenkins", "mysql", "nginx", "nobody", "postgres", "root", "www-data",
})  # fmt: skip
"""Users that are found on many machines, and that no command is called after."""
_ALSO_COMMANDS: Final = frozenset({"at", "backup", "daemon", "list", "lp", "mail", "man", "news", "proxy", "sync"})
"""Users of many machines that may as well be commands."""
_USER_HEADING: Final = re.compile(r"\buser(?:-?name)?\s+command\b")
"""The comment above the lines of a system crontab: `m h dom mon dow user command`."""
_NAME_GIVEN: Final = re.compile(r"(?:name|job)\s*[:=]\s*(\S+)\s*", re.IGNORECASE)
_NAME_WORDS: Final = re.compile(r"[^\W\d_][\w '.,&/()-]*")
"""A comment that may name a job: not a line that was commented out."""
_NAME_WORDS_MAX: Final = 5
_NAME_COMMENT_MAX: Final = 40
_DIGEST_LENGTH: Final = 6


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


def translate(
    text: str, name: str, *, timezone: str, is_system: bool | None = None, users: Collection[str] = ()
) -> Translated:
    """Return the job file that does what a crontab does.

    Args:
        text: The crontab.
        name: What errors call it.
        timezone: The time zone of the machine.
        is_system: Whether lines name a user; None: it is told from the lines.
        users: The users of the machine.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    named = _names_users(lines, users) if is_system is None else is_system
    return _Translator(name, timezone, is_system=named).translated(lines)


class _State(msgspec.Struct):
    """What holds for the lines below."""

    shell: str = "/bin/sh"
    timezone: str | None = None
    cwd: str | None = None
    env: dict[str, str] = {}


class _Job(msgspec.Struct, frozen=True, kw_only=True):
    """One line that runs a command."""

    number: int
    schedule: str
    timezone: str | None
    user: str | None
    command: str
    arguments: list[str]
    given: str | None
    cwd: str | None
    env: dict[str, str]
    comments: list[str]

    @property
    def digest(self) -> str:
        """What tells this line from others, wherever it stands."""
        said = "\0".join((self.schedule, self.timezone or "", self.user or "", self.command, self.given or ""))
        return hashlib.sha256(said.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST_LENGTH]


class _Translator:
    """Goes through a crontab once."""

    def __init__(self, name: str, timezone: str, *, is_system: bool) -> None:
        self._is_system, self._state = is_system, _State()
        self._notes: list[Note] = []
        self._jobs: list[_Job] = []
        self._users: set[str] = set()
        self._comments: list[str] = []
        head = [writing.comment(line) for line in (f"Made from {name} by `itinerary import-crontab`.", *_HEADER)]
        zone = f"timezone = {writing.text(timezone)}".ljust(31) + " # cron goes by the clock of the machine"
        self._head = [*head, "", zone, "", _DEFAULTS]

    def translated(self, lines: list[str]) -> Translated:
        for number, line in enumerate(lines, 1):
            self._take(number, line.strip(" \t"))
        shared = self._shared_env()
        names = _names(self._jobs, lines)
        text = [*self._head]
        if shared:
            text[-1] += f"env = {writing.inline_table(shared)}\n"
        for job, name in zip(self._jobs, names, strict=True):
            text += _written(job, name, shared)
        text += ["", *self._comments]
        return Translated("\n".join(text).rstrip("\n") + "\n", len(self._jobs), self._is_system, tuple(self._notes))

    def _shared_env(self) -> dict[str, str]:
        """The variables that all commands have, with the same value."""
        envs = [job.env for job in self._jobs]
        first = envs[0] if envs else {}
        return {key: value for key, value in first.items() if all(env.get(key) == value for env in envs)}

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
        arguments = [shell, "-c", run]
        definition: dict[str, object] = {"shell": arguments, "env": self._state.env}
        if self._state.cwd is not None:
            definition["cwd"] = self._state.cwd
        if given is not None:
            definition["input"] = given
        read_shell(definition)
        if user is not None and user not in self._users:
            self._users.add(user)
            told = f"cron ran this as {shown(user)}, and a task runs as its node does: start a node as that user"
            self._notes.append(Note(number, told))
        job = _Job(
            number=number,
            schedule=schedule,
            timezone=self._state.timezone,
            user=user,
            command=run,
            arguments=arguments,
            given=given,
            cwd=self._state.cwd,
            env=self._state.env,
            comments=self._comments,
        )
        self._jobs.append(job)
        self._comments = []

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


def _written(job: _Job, name: str, shared: dict[str, str]) -> list[str]:
    """The lines of a job in the job file. `shared` variables stand among the defaults."""
    ran_as = "" if job.user is None else f", as {job.user}"
    lines = ["", *job.comments, f"[jobs.{writing.key(name)}]", f"schedule = {writing.text(job.schedule)}"]
    if job.timezone is not None:
        lines.append(f"timezone = {writing.text(job.timezone)}")
    lines += ["", f"[[jobs.{writing.key(name)}.tasks]]", 'name = "run"']
    lines.append(writing.comment(f"line {job.number} of the crontab{ran_as}"))
    lines.append(f"shell = {writing.text_list(job.arguments)}")
    if job.given is not None:
        lines.append(f"input = {writing.text(job.given)}")
    if job.cwd is not None:
        lines.append(f"cwd = {writing.text(job.cwd)}")
    if env := {key: value for key, value in job.env.items() if key not in shared}:
        lines.append(f"env = {writing.inline_table(env)}")
    return lines


# -- names -------------------------------------------------------------------------------------------------------------


def _names(jobs: list[_Job], lines: list[str]) -> list[str]:
    """A name for each job, which depends on no other job's place."""
    wanted = [_comment_name(job, lines) or _name_of(job.command) or f"job-{job.digest}" for job in jobs]
    counts = Counter(wanted)
    digested = [name if counts[name] == 1 else f"{name}-{job.digest}" for job, name in zip(jobs, wanted, strict=True)]
    names: list[str] = []
    for name in digested:  # lines that are the same, letter by letter, are interchangeable
        found, number = name, 1
        while found in names or (number > 1 and found in digested):
            number += 1
            found = f"{name}-{number}"
        names.append(found)
    return names


def _comment_name(job: _Job, lines: list[str]) -> str | None:
    """The name in the comment above a job: `name: backup`, or a few words that are about this line alone."""
    above = lines[job.number - 2].strip(" \t") if job.number > 1 else ""
    if not above.startswith("#"):
        return None
    comment = above.lstrip("#").strip()
    if (given := _NAME_GIVEN.fullmatch(comment)) is not None:
        return _cleaned(given[1]) or None
    below = lines[job.number].strip(" \t") if job.number < len(lines) else ""
    is_alone = not below or below.startswith("#") or _VARIABLE.fullmatch(below) is not None
    is_one_line = job.number < 3 or not lines[job.number - 3].strip(" \t").startswith("#")
    words = comment.split()
    is_short = len(words) <= _NAME_WORDS_MAX and len(comment) <= _NAME_COMMENT_MAX
    if not (is_alone and is_one_line and is_short) or not _NAME_WORDS.fullmatch(comment):
        return None
    return _cleaned("-".join(words)).lower() or None


def _cleaned(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text).strip("-_")[:_NAME_MAX].rstrip("-_")


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _split_input(command: str) -> tuple[str, str | None]:
    """The command, and what it is given to read; None: nothing."""
    run, given, at = "", None, 0
    for found in _LINE_END.finditer(command):
        before, at = command[at : found.start()], found.end()
        if found[0] == "%" and given is None:
            run, given = run + before, ""
            continue
        added = before + ("\n" if found[0] == "%" else "%")
        run, given = (run + added, None) if given is None else (run, given + added)
    rest = command[at:]
    if given is None:
        return run + rest, None
    text = (given + rest).removesuffix("\n")
    return run, f"{text}\n" if text else None


def _names_users(lines: list[str], users: Collection[str]) -> bool:
    """True if every line that has a schedule goes on with a user and a command.

    A word is a user if the machine has one of that name and no command is usually called so. One such line shows what
    the column is; then other lines may name any user before a path. A heading such as `m h dom mon dow user command`
    shows it for all of them.
    """
    found = [rest for line in lines if (rest := _rest_of(line.strip(" \t"))) is not None]
    if not found or not all(len(rest) > 1 and _USER.fullmatch(rest[0]) for rest in found):
        return False
    if any(line.lstrip(" \t").startswith("#") and _USER_HEADING.search(line) for line in lines):
        return True
    known = _USERS | (set(users) - _ALSO_COMMANDS)
    is_known = [rest[0] in known for rest in found]
    return any(is_known) and all(one or rest[1].startswith("/") for one, rest in zip(is_known, found, strict=True))


def _rest_of(line: str) -> list[str] | None:
    """The words after the schedule; None if this is no job."""
    if not line or line.startswith("#") or _VARIABLE.fullmatch(line):
        return None
    return line.split()[1 if line.startswith("@") else 5 :]


def _name_of(command: str) -> str | None:
    """What a job may be called: the first word of its command that says something; None if there is none."""
    words = list(_words(command))
    telling = [word for word in words if word not in _WRAPPERS]
    return next(iter(telling or words), None)


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
