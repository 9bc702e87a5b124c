"""Convert a crontab to a job file (U2).

    0 3 * * *  pg_dump db        [jobs.pg_dump]  schedule = "0 3 * * *"  and a task  ["/bin/sh", "-c", "pg_dump db"]

    SHELL                 the program that runs the commands below it, and a variable of theirs
    CRON_TZ               the time zone of the jobs below it
    HOME                  the working directory, and a variable, of the commands below it
    MAILTO, RANDOM_DELAY  ignored, with a note
    LOGNAME, USER         ignored, with a note: cron sets these itself
    any other             a variable of the commands below it, without expansion, as in cron. Variables that all
                          commands share are written once, in `[defaults] env`
    …PASSWORD, …_TOKEN    a reference to a secret of the node, with a note: see `crontab_secrets`
    %                     the first begins the command's `input`, the others end its lines; `\\%` is a percent sign
    10~20                 `H(10-20)`, with a note: cron chooses at random, `H` chooses by the job's name
    @reboot               ignored, with a note: a node's start is not the machine's
    - before a schedule   ignored: cron then does not write to the system log (cronie, SUSE)
    -n, -q                ignored, with a note: options of cron before the command, about mail and the system log
    the user              ignored, with a note: the node's operator decides the user of a task (Q7)
    bytes beyond UTF-8    with a note: a comment shows `\ufffd` in their place, and any other line is left out

A job is named by the comment above it, if that comment is about this line alone; else by its script. Jobs that would
share a name get a digest of their line. So a name does not depend on the position of other lines, and a job keeps its
history when lines are moved.

The jobs behave as under cron, so that the conversion changes nothing: runs may overlap, missed runs are not made up
for, and no run is ended for its duration. `[defaults]` contains all of these options, ready to be improved. A line that
cannot be converted is left out, appears in the file as a comment, and is reported with its number.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from itinerary.errors import ConfigError, ItineraryError
from itinerary.executors.definitions import read_shell
from itinerary.jobs.job_file import toml_writer as writing
from itinerary.jobs.job_file.crontab_secrets import SecretNames, looks_secret, note_on_secret, secrets_in_command
from itinerary.model.text import shown
from itinerary.schedules import cron, packaged_zone

__all__ = ["ConvertedCrontab", "Note", "translate"]

_VARIABLE: Final = re.compile(r"""(?:"([^"]*)"|'([^']*)'|([A-Za-z_][A-Za-z0-9_]*))\s*=\s*(.*)""", re.DOTALL)
_LINE_END: Final = re.compile(r"\\%|%")
_IN_COMMAND: Final = re.compile(r"\\(.)|%", re.DOTALL)
"""The end of a command, or an escape: a backslash removes the special meaning of the next character."""
_NOT_UTF8: Final = re.compile("[\udc80-\udcff]")
"""Bytes that are not UTF-8, as `surrogateescape` decodes them."""
_CRON_OPTIONS: Final = re.compile(r"(?:-[nqv]+[ \t]+)+")
"""Options before a command: `-n` mails only after a failure (cronie, FreeBSD), `-q` does not log (FreeBSD)."""
_REFERENCE: Final = re.compile(r"\$\{?[A-Za-z_]")
_RANDOM: Final = re.compile(r"(\d{0,4})~(\d{0,4})", re.ASCII)
_BOUNDS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
"""The lowest and the highest value of each field."""
_NICKNAMES: Final = {"@every_minute": "* * * * *"}
"""Nicknames of FreeBSD's cron that `cron` does not have."""
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_NAME_MAX: Final = 60
# fmt: off
_WRAPPERS: Final = frozenset({
    "[", "bash", "cd", "chronic", "command", "dash", "env", "exec", "flock", "ionice", "java", "ksh",
    "if", "nice", "node", "nohup", "perl", "php", "python", "python2", "python3", "root", "ruby", "setsid", "sh",
    "sleep", "sudo", "systemd-cat", "test", "then", "time", "timeout", "until", "while", "zsh",
})
# fmt: on
"""Commands that do not describe the purpose of a job."""
_HEADER: Final = (
    "cron starts a command in the home directory of its user, with a PATH of /usr/bin:/bin and few other variables.",
    "A task has the directory and the environment of its node: set cwd and env where that matters.",
)
_DEFAULTS: Final = """\
# These lines keep the behaviour of cron. Delete a line to use the default of Itinerary.
[defaults]
overlap = "allow"               # a run starts while the previous one still runs; "skip" and "queue" prevent that
recovery = "mark_as_missed"     # a run that was due while no node ran stays missed; "execute_last" runs the last one
execution_timeout = "7d"        # no run is ended because it takes long
"""
_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.@-]{0,63}\$?(?:[:/][A-Za-z0-9_.-]+)?")
_USERS: Final = frozenset({
    "apache", "git", "gitlab-runner", "jenkins", "mysql", "nginx", "nobody", "postgres", "root", "www-data",
})  # fmt: skip
"""Users of many machines that are not names of commands."""
_ALSO_COMMANDS: Final = frozenset({"at", "backup", "daemon", "list", "lp", "mail", "man", "news", "proxy", "sync"})
"""Users of many machines that may also be commands."""
_USER_HEADING: Final = re.compile(r"\buser(?:-?name)?\s+command\b")
"""The comment above the lines of a system crontab: `m h dom mon dow user command`."""
_NAME_GIVEN: Final = re.compile(r"(?:name|job)\s*[:=]\s*(\S+)\s*", re.IGNORECASE)
_NAME_WORDS: Final = re.compile(r"[^\W\d_][\w '.,&/()-]*")
"""A comment that may name a job, and is not a line that was commented out."""
_NAME_WORDS_MAX: Final = 5
_NAME_COMMENT_MAX: Final = 40
_DIGEST_LENGTH: Final = 6


class Note(msgspec.Struct, frozen=True):
    """A note about a line, for the user."""

    line: int
    message: str
    is_left_out: bool = False
    """True if the line is not in the job file."""


class ConvertedCrontab(msgspec.Struct, frozen=True):
    """A crontab, converted to a job file."""

    text: str
    jobs: int
    is_system: bool
    """True if the lines were read as lines with a user."""
    notes: tuple[Note, ...]

    @property
    def is_whole(self) -> bool:
        """True if no line was left out."""
        return not any(note.is_left_out for note in self.notes)


def translate(
    text: str, name: str, *, timezone: str, is_system: bool | None = None, users: Collection[str] = ()
) -> ConvertedCrontab:
    """Return the job file that does what a crontab does.

    Args:
        text: The crontab. Bytes that are not UTF-8 are decoded with `surrogateescape`.
        name: The name of the crontab in errors.
        timezone: The time zone of the machine.
        is_system: True if lines name a user; None: decide by the lines.
        users: The users of the machine.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    named = _names_users(lines, users) if is_system is None else is_system
    translator = _Translator(name, timezone, is_system=named)
    if "\r\n" in text:
        translator.note(1, "lines end in CR LF; cron passes the CR to its commands, and the job file leaves it out")
    return translator.translated(lines)


class _State(msgspec.Struct):
    """The settings for the lines below."""

    shell: str = "/bin/sh"
    timezone: str | None = None
    cwd: str | None = None
    env: writing.Variables = {}


class _Job(msgspec.Struct, frozen=True, kw_only=True):
    """A line that runs a command."""

    number: int
    schedule: str
    timezone: str | None
    user: str | None
    command: str
    arguments: list[str]
    given: str | None
    cwd: str | None
    env: writing.Variables
    comments: list[str]

    @property
    def digest(self) -> str:
        """The digest that distinguishes this line from others, at any position."""
        said = "\0".join((self.schedule, self.timezone or "", self.user or "", self.command, self.given or ""))
        return hashlib.sha256(said.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST_LENGTH]


class _Translator:
    """A single pass over a crontab."""

    def __init__(self, name: str, timezone: str, *, is_system: bool) -> None:
        self._is_system, self._state = is_system, _State()
        self._notes: list[Note] = []
        self._jobs: list[_Job] = []
        self._users: set[str] = set()
        self._comments: list[str] = []
        self._secrets = SecretNames()
        head = [
            writing.comment(line) for line in (f"Made from {_readable(name)} by `itinerary import-crontab`.", *_HEADER)
        ]
        zone = f"timezone = {writing.text(timezone)}".ljust(31) + " # cron goes by the clock of the machine"
        self._head = [*head, "", zone, "", _DEFAULTS]

    def note(self, number: int, message: str) -> None:
        """Add a note about a line that is in the job file."""
        self._notes.append(Note(number, message))

    def translated(self, lines: list[str]) -> ConvertedCrontab:
        for number, line in enumerate(lines, 1):
            self._take(number, line.strip(" \t"))
        if self._jobs and self._jobs[-1].number == len(lines):
            self.note(
                len(lines), "the last line has no newline: cron ignores such a line, and the job file has its job"
            )
        shared = self._shared_env()
        names = _names(self._jobs, lines)
        text = [*self._head]
        if shared:
            text[-1] += f"env = {writing.inline_table(shared)}\n"
        for job, name in zip(self._jobs, names, strict=True):
            text += _written(job, name, shared)
        text += ["", *self._comments]
        return ConvertedCrontab(
            "\n".join(text).rstrip("\n") + "\n", len(self._jobs), self._is_system, tuple(self._notes)
        )

    def _shared_env(self) -> writing.Variables:
        """Return the variables that all commands have with the same value."""
        envs = [job.env for job in self._jobs]
        first: writing.Variables = envs[0] if envs else {}
        return {key: value for key, value in first.items() if all(env.get(key) == value for env in envs)}

    def _take(self, number: int, line: str) -> None:
        if not line:
            if self._comments and self._comments[-1]:
                self._comments.append("")
        elif line.startswith("#"):
            if (found := _NOT_UTF8.search(line)) is not None:
                self.note(number, f"byte {_byte(found[0])} is not UTF-8; the comment in the job file has \ufffd there")
            self._comments.append(writing.comment(_readable(line.lstrip("#").strip())))
        else:
            try:
                self._read(number, line)
            except ItineraryError as error:
                self._leave_out(number, line, str(error))

    def _read(self, number: int, line: str) -> None:
        if (found := _NOT_UTF8.search(line)) is not None:
            raise ConfigError(
                f"byte {_byte(found[0])} is not UTF-8, as a job file is; convert the crontab, such as with "
                "`iconv -f latin1 -t utf-8`"
            )
        if (found := _VARIABLE.fullmatch(line)) is not None:
            self._set(number, found[1] or found[2] or found[3] or "", _unquoted(found[4].strip(" \t")))
        else:
            self._add_job(number, line)

    def _leave_out(self, number: int, line: str, why: str) -> None:
        self._notes.append(Note(number, why, is_left_out=True))
        written = [f"Not translated, line {number}: {why}", _readable(line)]
        self._comments += [*map(writing.comment, written), ""]

    # -- variables ---------------------------------------------------------------------------------------------------

    def _set(self, number: int, name: str, value: str) -> None:
        match name:
            case "CRON_TZ":
                self._set_zone(number, value)
            case "MAILTO" | "MAILFROM" | "CONTENT_TYPE" | "CONTENT_TRANSFER_ENCODING":
                if value:
                    instead = "`itinerary show JOB --last` prints the output of the last run"
                    self.note(number, f"{name}={value}: Itinerary sends no mail; {instead}")
            case "RANDOM_DELAY":
                jitter = writing.text(value + "m")
                self.note(number, f"{name}={value}: no run is delayed; add jitter = {jitter} to a schedule")
            case "LOGNAME" | "USER":
                self.note(
                    number, f"{name}={value}: cron sets {name} itself, so this line has no effect; it is left out"
                )
            case _:
                self._set_variable(number, name, value)

    def _set_variable(self, number: int, name: str, value: str) -> None:
        if looks_secret(name, value):
            secret = self._secrets.name_of(name, value)
            self._state.env = {**self._state.env, name: {"secret": secret}}
            self.note(number, note_on_secret(name, secret))
            return
        self._state.env = {**self._state.env, name: value}
        if name == "HOME":
            self._state.cwd = value or None
        elif name == "SHELL":
            self._state.shell = value or "/bin/sh"
        if _REFERENCE.search(value) is not None:
            self.note(number, f"{name}={value}: cron does not expand variables here, and neither does Itinerary")

    def _set_zone(self, number: int, value: str) -> None:
        try:
            self._state.timezone = packaged_zone(value).name if value else None
        except ItineraryError as error:
            told = f"CRON_TZ has no effect, and the lines below keep their zone: {error}"
            self._notes.append(Note(number, told, is_left_out=True))

    # -- jobs --------------------------------------------------------------------------------------------------------

    def _add_job(self, number: int, line: str) -> None:
        schedule, user, command = self._parts(line.removeprefix("-").lstrip(" \t"))
        if schedule == "@reboot":
            raise ConfigError(
                "@reboot runs when the machine starts, and a node does not know when that is; if each start of a node "
                'is right as well, add the job with schedule = "@reboot"'
            )
        chosen = _without_random(_NICKNAMES.get(schedule, schedule))
        cron(chosen)  # raises an error for an invalid expression
        if (options := _CRON_OPTIONS.match(command)) is not None:
            command = command[options.end() :]
            told = f"{options[0].rstrip()}: an option of cron about mail and the system log, and not of the command"
            self.note(number, f"{told}; it is left out")
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
        if found := secrets_in_command(run):
            told = f"the command has {', '.join(found)}, which looks like a secret"
            self.note(number, f'{told}; give the command a variable: env = {{ NAME = {{ secret = "NAME" }} }}')
        if "~" in schedule:
            self.note(number, f"{schedule}: cron chooses a time at random; {chosen} chooses one by the job's name")
        if user is not None and user not in self._users:
            self._users.add(user)
            told = f"cron ran this as {shown(user)}, and a task runs as the user of its node"
            self.note(number, f"{told}: start the node as {shown(user)}, or change the command to switch the user")
        job = _Job(
            number=number,
            schedule=chosen,
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
            raise ConfigError("this is no comment, no variable, and no schedule with a command")
        schedule, rest = " ".join(parts[:fields]), parts[fields]
        if not self._is_system:
            return schedule, None, rest
        match rest.split(None, 1):
            case [user, command]:
                return schedule, user, command
            case _:
                raise ConfigError("there is no command after the user on this line")


def _written(job: _Job, name: str, shared: writing.Variables) -> list[str]:
    """Return the lines of a job in the job file. `shared` variables are written among the defaults."""
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
    """Return a name for each job that does not depend on the position of other jobs."""
    wanted = [_comment_name(job, lines) or _name_of(job.command) or f"job-{job.digest}" for job in jobs]
    counts = Counter(wanted)
    digested = [name if counts[name] == 1 else f"{name}-{job.digest}" for job, name in zip(jobs, wanted, strict=True)]
    names: list[str] = []
    for name in digested:  # identical lines are interchangeable
        found, number = name, 1
        while found in names or (number > 1 and found in digested):
            number += 1
            found = f"{name}-{number}"
        names.append(found)
    return names


def _comment_name(job: _Job, lines: list[str]) -> str | None:
    """Return the name in the comment above a job: `name: backup`, or a few words about this line alone."""
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
    """Return the value of a variable without its quotes. Raises ConfigError if cron reads no variable here either."""
    if not value.startswith(('"', "'")):
        return value
    quoted, end, rest = value[1:].partition(value[0])
    if not end or rest:
        raise ConfigError(
            f"a value that begins with {value[0]} ends with it, and nothing follows; cron reads no variable here"
        )
    return quoted


def _split_input(command: str) -> tuple[str, str | None]:
    """Return the command and the text of its input; None if it has no input.

    The command ends at the first percent sign that no backslash escapes. A backslash may itself be escaped, so the
    command of `\\\\%` ends at its percent sign. In the input, a percent sign ends a line, and `\\%` is a percent sign.
    """
    for found in _IN_COMMAND.finditer(command):
        if found[0] == "%":
            text = _LINE_END.sub(lambda sign: "\n" if sign[0] == "%" else "%", command[found.end() :])
            given = text if text.endswith("\n") or not text else f"{text}\n"
            return _without_escapes(command[: found.start()]), given or None
    return _without_escapes(command), None


def _without_escapes(command: str) -> str:
    return _IN_COMMAND.sub(lambda found: "%" if found[1] == "%" else found[0], command)


def _without_random(schedule: str) -> str:
    """Return the schedule with `H` for each random value: `H(10-20)` for `10~20`, and `H` for `~`."""
    fields = schedule.split(" ")
    if "~" not in schedule or len(fields) != len(_BOUNDS):
        return schedule
    return " ".join(
        ",".join(_hashed(item, low, high) for item in field.split(","))
        for field, (low, high) in zip(fields, _BOUNDS, strict=True)
    )


def _hashed(item: str, low: int, high: int) -> str:
    if (found := _RANDOM.fullmatch(item)) is None:
        return item
    first, last = int(found[1] or low), int(found[2] or high)
    return "H" if (first, last) == (low, high) else f"H({first}-{last})"


def _byte(character: str) -> str:
    """Return the byte behind a character that `surrogateescape` made: 0xe9."""
    return f"{ord(character) - 0xDC00:#04x}"


def _readable(line: str) -> str:
    return _NOT_UTF8.sub("\ufffd", line)


def _names_users(lines: list[str], users: Collection[str]) -> bool:
    """True if every line with a schedule continues with a user and a command.

    A word is a user if the machine has a user of that name and it is not a usual command name. One such line is enough
    evidence; then other lines may name any user before a path. A heading such as `m h dom mon dow user command` is
    evidence for all lines.
    """
    found = [rest for line in lines if (rest := _rest_of(line.strip(" \t")))]
    if not found or not all(len(rest) > 1 and _USER.fullmatch(rest[0]) for rest in found):
        return False
    if any(line.lstrip(" \t").startswith("#") and _USER_HEADING.search(line) for line in lines):
        return True
    known = _USERS | (set(users) - _ALSO_COMMANDS)
    is_known = [rest[0] in known for rest in found]
    return any(is_known) and all(one or rest[1].startswith("/") for one, rest in zip(is_known, found, strict=True))


def _rest_of(line: str) -> list[str]:
    """Return the words after the schedule; empty if the line is no job."""
    if not line or line.startswith("#") or _VARIABLE.fullmatch(line):
        return []
    return line.split()[1 if line.startswith("@") else 5 :]


def _name_of(command: str) -> str | None:
    """Return a name for a job: the first word of its command that describes it; None if there is none."""
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
