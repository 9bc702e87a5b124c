"""The overrides that a caller may set on one run: those that affect only the run, or all.

A policy of a job protects more than one run: whether two runs may overlap, and whether a run may be repeated after its
node died. An admin decides these in the definition. A caller with the scope `operate` may set priorities, timeouts and
retries of a run, but cannot lift such a policy.

    overlap      `allow` and `replace` need the scope `admin`, unless the job has the same; `skip` and `queue` do not
    on_orphan    `rerun` needs the scope `admin`, unless the job has the same

Limits and `max_active` are not overrides of a run: no caller can set them for one.
"""

from __future__ import annotations

from typing import Final, assert_never

from itinerary.errors import PermissionDeniedError
from itinerary.model.definition import Definition
from itinerary.model.overrides import Overrides
from itinerary.model.policies import OnOrphan, Overlap
from itinerary.model.scopes import Scope
from itinerary.operations.run_requests import Permit

__all__ = ["permit_of"]

_CHECKED: Final = ("overlap", "on_orphan")
"""The keys of values that may lift a policy."""


def permit_of(scope: Scope | None) -> Permit | None:
    """Return the check for a caller's overrides of a run; None: the caller may set all."""
    return None if scope is not None and scope.covers(Scope.ADMIN) else _check_values


def _check_values(definition: Definition, given: Overrides) -> None:
    """Raise PermissionDeniedError if a value lifts a policy of the job."""
    config = definition.config()
    for key in _CHECKED:
        wanted, own = getattr(given, key), getattr(config, key)
        if wanted is not None and _lifts(wanted) and wanted != own:
            raise PermissionDeniedError(
                f"{key}: {wanted} lifts a policy of the job, which is {own}; that needs the scope admin: "
                f"leave {key} out, or have an admin change the job"
            )


def _lifts(value: Overlap | OnOrphan) -> bool:
    """True if the value lifts a policy: it lets runs overlap, ends another run, or runs one again."""
    match value:
        case Overlap.ALLOW | Overlap.REPLACE | OnOrphan.RERUN:
            return True
        case Overlap.SKIP | Overlap.QUEUE | OnOrphan.LEAVE:
            return False
        case _:
            assert_never(value)
