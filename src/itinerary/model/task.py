"""A task of a job, as it is stored in a version of the job (D2).

The work of a task is JSON (`{"python": "package.module:function"}`, `{"shell": ["gzip", "out.csv"]}`). Overrides
contain only what was set. No code is ever stored (D9): a name is looked up when the task starts. A job with a name that
cannot be resolved is quarantined, not lost.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from itinerary.model.ids import TaskId
from itinerary.model.overrides import NOTHING, Overrides

__all__ = ["JsonObject", "Task"]

JsonObject: TypeAlias = Mapping[str, Any]
"""Plain data that JSON can hold. Read it, do not change it."""


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A unit of work in a job."""

    id: TaskId
    name: str
    order: int
    """The place in the job, from 0."""
    definition: JsonObject
    """The work to do."""
    overrides: Overrides = NOTHING

    @property
    def outlives_its_node(self) -> bool:
        """True if its work continues without the node that started it: a pod, which another node can adopt (K4)."""
        return "pod" in self.definition
