"""The definition of a job at one version: the body of its entry on the timeline.

A definition is JSON and nothing else (D9). Code is named as `package.module:function` and looked up when needed. A name
that cannot be resolved quarantines the job on that node, and nothing is lost.

    schedule    when                      tasks       what, in order            on_start, on_complete   hooks (X7)
    overrides   how, for this job         requires    conditions before the start (O3)
    defaults    how, for all jobs that were declared with it

The defaults are part of the version, as are the schedule's time zone and the variables of all commands. So every node
and every reader finds the same values in the store, independent of its own files. A changed default is a change of the
job: planned, applied, listed and rolled back like any other. Only defaults that the job does not set itself are stored:
a default without effect creates no new version.
"""

from enum import StrEnum
from typing import Final

import msgspec

from itinerary.errors import ConfigError
from itinerary.model.config import EffectiveConfig, resolve
from itinerary.model.overrides import NOTHING, Overrides
from itinerary.model.task import JsonObject, Task
from itinerary.model.text import shown
from itinerary.model.validators import Check, duration, one_of, settle

__all__ = ["Definition", "Requirement", "Unmet"]


class Unmet(StrEnum):
    """The reaction to an unmet condition."""

    WAIT = "wait"
    """Check again at intervals until a deadline. Then the occurrence fails."""
    SKIP = "skip"
    FAIL = "fail"
    ACT = "act"
    """Run the action, and check again."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A condition that must hold before an occurrence runs. Exactly one of the first five fields is set."""

    python: str | None = None
    """A callable that answers run, wait, skip or fail."""
    job: str | None = None
    """Another job, whose last occurrence up to this instant succeeded."""
    file: str | None = None
    """A path that exists."""
    http: str | None = None
    """An address that answers with a status from 200 to 299."""
    sql: str | None = None
    """A statement on the store. The first value of its first row is true."""
    on_unmet: Unmet = Unmet.WAIT
    every: str = "30s"
    deadline: str = "1h"
    action: str | None = None
    """The callable for `on_unmet = "act"`."""

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
        """The name of the field that is set."""
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
    """Values that were set for all jobs of the declaration and that this job does not set itself."""

    def config(self, *, task: Overrides = NOTHING, occurrence: Overrides = NOTHING) -> EffectiveConfig:
        """Resolve the configuration in force for the job, or for one of its tasks or occurrences."""
        return resolve(settings=self.defaults, job=self.overrides, task=task, occurrence=occurrence)
