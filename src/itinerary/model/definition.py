"""What a job is, at one version: the body of its entry on the timeline.

A definition is JSON and nothing else (D9). Code is named in it, `package.module:function`, and looked up when it is
needed: a name that leads nowhere quarantines the job on that node, and takes nothing away.

    schedule    when                 tasks       what, in order          on_start, on_complete   who is told (X7)
    overrides   how (the job's)      requires    what must be so first (O3)
    defaults    how (of all jobs that were declared with it)

The defaults are part of the version, as the schedule's time zone and the variables of all commands are. So every node
and every reader finds the same values in the store, whatever its own files say, and a change of them is a change of the
job: planned, applied, listed and rolled back like any other. Only leaves are kept that the job does not set itself:
a default that has no effect on a job makes no version of it.
"""

from enum import StrEnum
from typing import Final

import msgspec

from itinerary.errors import ConfigError
from itinerary.model.config import EffectiveConfig, resolve
from itinerary.model.job import JsonObject, Task
from itinerary.model.overrides import NOTHING, Overrides
from itinerary.model.text import shown
from itinerary.model.validators import Check, duration, one_of, settle

__all__ = ["Definition", "Requirement", "Unmet"]


class Unmet(StrEnum):
    """What happens when a requirement is not met."""

    WAIT = "wait"
    """Look again every so often, up to a deadline; then the occurrence fails."""
    SKIP = "skip"
    FAIL = "fail"
    ACT = "act"
    """Do something about it, and look again."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Something that must be so before an occurrence runs. Exactly one of the first five says what."""

    python: str | None = None
    """A callable that answers run, wait, skip or fail."""
    job: str | None = None
    """Another job, whose last occurrence up to this instant succeeded."""
    file: str | None = None
    """A path at which something exists."""
    http: str | None = None
    """An address that answers with a status from 200 to 299."""
    sql: str | None = None
    """A statement on the store whose first row begins with something true."""
    on_unmet: Unmet = Unmet.WAIT
    every: str = "30s"
    deadline: str = "1h"
    action: str | None = None
    """The callable of `on_unmet = "act"`."""

    def __post_init__(self) -> None:
        settle(self, "requires.", _CHECKS)
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            named = " and ".join(given) or "nothing"
            raise ConfigError(f"requires: names {named}; give exactly one of {', '.join(KINDS)}")
        if (self.action is not None) != (self.on_unmet is Unmet.ACT):
            raise ConfigError('requires.action: goes with on_unmet = "act", and that with it')

    @property
    def kind(self) -> str:
        """Which of the five it is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    def __str__(self) -> str:
        return f"{self.kind} {getattr(self, self.kind)}"


KINDS: Final = ("python", "job", "file", "http", "sql")


def _text(key: str, value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ConfigError(f"{key}: {shown(value)} is not text that names something")
    return value


_CHECKS: Final[dict[str, Check]] = {
    **dict.fromkeys((*KINDS, "action"), _text),
    "on_unmet": one_of(Unmet),
    "every": duration(100_000),
    "deadline": duration(0),
}


class Definition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A job at one version."""

    schedule: JsonObject
    overrides: Overrides = NOTHING
    tasks: tuple[Task, ...] = ()
    requires: tuple[Requirement, ...] = ()
    on_start: tuple[str, ...] = ()
    on_complete: tuple[str, ...] = ()
    defaults: Overrides = NOTHING
    """What was set for all jobs where this one was declared, and it does not set itself."""

    def config(self, *, task: Overrides = NOTHING, occurrence: Overrides = NOTHING) -> EffectiveConfig:
        """Resolve the configuration that holds for the job, or for one of its tasks or occurrences."""
        return resolve(settings=self.defaults, job=self.overrides, task=task, occurrence=occurrence)
