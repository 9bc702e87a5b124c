"""Which values a caller may set on one run: those that concern the run alone, or all of them.

A policy of a job protects more than one run: whether two runs may overlap, and whether a run may be repeated after its
node died. An admin decides these in the definition. A caller with the scope `operate` sets priorities, timeouts and
retries of a run; it cannot lift such a policy.

    overlap      `allow` and `replace` need the scope `admin`, unless the job says the same; `skip` and `queue` do not
    on_orphan    `rerun` needs the scope `admin`, unless the job says the same

Limits and `max_active` are no values of a run: no caller overrides them for one.
"""

from __future__ import annotations

from typing import Final

from itinerary.errors import PermissionDeniedError
from itinerary.model.definition import Definition
from itinerary.model.overrides import Overrides
from itinerary.model.policies import OnOrphan, Overlap
from itinerary.model.scopes import Scope
from itinerary.operations.run_requests import Permit

__all__ = ["permit_of"]

_LIFTS: Final = {
    "overlap": frozenset({Overlap.ALLOW, Overlap.REPLACE}),
    "on_orphan": frozenset({OnOrphan.RERUN}),
}
"""The values that lift a policy, by their key."""


def permit_of(scope: Scope | None) -> Permit | None:
    """Return the check for the values that a caller of this scope sets on a run; None: the caller may set all."""
    return None if scope is not None and scope.covers(Scope.ADMIN) else _check_values


def _check_values(definition: Definition, given: Overrides) -> None:
    """Raise PermissionDeniedError if a value lifts a policy of the job."""
    config = definition.config()
    for key, lifting in _LIFTS.items():
        wanted, own = getattr(given, key), getattr(config, key)
        if wanted in lifting and wanted != own:
            raise PermissionDeniedError(
                f"{key}: {wanted} lifts a policy of the job, which is {own}; that needs the scope admin: "
                f"leave {key} out, or have an admin change the job"
            )
