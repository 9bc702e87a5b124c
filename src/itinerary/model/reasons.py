"""Reasons that name something, written and read in one place.

The audit trail stores as a sentence why an occurrence was skipped, queued or held up. The sentence may name another
occurrence, a limit or a node. A later query for the cause has to find that name again. So this module both writes and
reads these sentences: `read_reason` finds what the functions below wrote.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple

from itinerary.model.rows.keys import Ref

__all__ = [
    "BEFORE_THE_CALL",
    "UNSURE_OF",
    "WENT_BACK",
    "Reason",
    "ReasonKind",
    "called_by",
    "given_back",
    "lacks_share",
    "lacks_slot",
    "named_occurrences",
    "overlaps",
    "queues_for",
    "read_reason",
    "replaced_by",
    "shut_down",
    "unsure_of",
    "waits_for",
]


WENT_BACK: Final = "this machine's clock went back"
"""The reason of a time jump that took no time. Readers distinguish it from the other jumps by this text."""


BEFORE_THE_CALL: Final = "before its function was called"
"""The part of a shutdown's reason for a run that had started in the store, without a call of any function."""


class ReasonKind(StrEnum):
    """The kind of a reason."""

    OVERLAPS = "overlaps"
    """Another occurrence of its job held the overlap slot, so it was skipped."""
    WAITS = "waits"
    """Another occurrence of its job holds the overlap slot, so it is queued."""
    CALLED = "called"
    """Another occurrence has ended, so it left the overlap queue."""
    REPLACED = "replaced"
    """A newer occurrence replaces it."""
    UNSURE = "unsure"
    """The node of the run in the overlap slot is silent. The occurrence waits until that node is known to be alive or
    dead."""
    LIMIT = "limit"
    SLOT = "slot"
    SHUTDOWN = "shutdown"
    """Its node was shut down."""


class Reason(NamedTuple):
    """A reason, parsed."""

    kind: ReasonKind
    ref: Ref | None = None
    name: str | None = None
    """The name of the limit or the node."""


def overlaps(ref: Ref) -> str:
    """Return why an occurrence is skipped: another one holds the overlap slot."""
    return f"overlaps occurrence {ref}"


def waits_for(ref: Ref) -> str:
    """Return why an occurrence is queued: another one holds the overlap slot."""
    return f"waits for occurrence {ref}"


def queues_for(ref: Ref) -> str:
    """Return why a late occurrence is queued and not skipped.

    The other occurrence started, or got the overlap slot, after this one was due.
    """
    return f"{waits_for(ref)}, which was not running yet when this one was due"


def called_by(ref: Ref) -> str:
    """Return why a queued occurrence has the overlap slot: one that ended handed it over."""
    return f"its turn has come: occurrence {ref} has ended"


def replaced_by(ref: Ref) -> str:
    """Return why an occurrence does not run, or no longer runs: a newer one replaces it."""
    return f"replaced by occurrence {ref}"


UNSURE_OF: Final = "waits to learn what became of occurrence "


def unsure_of(ref: Ref, why: str) -> str:
    """Return why an occurrence waits and is not skipped yet: the run in the overlap slot may no longer be running."""
    return f"{UNSURE_OF}{ref}: {why}"


def lacks_share(limit: str) -> str:
    """Return why an occurrence is held up: all shares of a limit are taken."""
    return f"limit {limit} has no share left"


def lacks_slot(node: str) -> str:
    """Return why an occurrence is held up: all slots of its node are in use."""
    return f"node {node} has no free slot"


def shut_down(node: str) -> str:
    """Return why an occurrence was interrupted or cancelled: its node was shut down."""
    return f"node {node} was shut down"


def given_back(node: str, *, has_run: bool, was_called: bool) -> str:
    """Return why an occurrence is given back.

    Args:
        node: The name of the node that was shut down.
        has_run: True if a function of the occurrence was interrupted.
        was_called: True if a function of the occurrence was called at least once.
    """
    if has_run:
        return f"{shut_down(node)} while it ran; another node, or the next start, runs it again"
    if was_called:
        return f"{shut_down(node)}; another node, or the next start, continues it"
    return f"{shut_down(node)} {BEFORE_THE_CALL}; another node, or the next start, runs it"


_PATTERNS: Final = (
    (ReasonKind.OVERLAPS, re.compile(r"overlaps occurrence (?P<ref>\d+)")),
    (ReasonKind.WAITS, re.compile(r"waits for occurrence (?P<ref>\d+)")),
    (ReasonKind.CALLED, re.compile(r"its turn has come(?:: occurrence (?P<ref>\d+) has ended)?")),
    (ReasonKind.REPLACED, re.compile(r"replaced by occurrence (?P<ref>\d+)")),
    (ReasonKind.UNSURE, re.compile(UNSURE_OF + r"(?P<ref>\d+)")),
    (ReasonKind.LIMIT, re.compile(r"limit (?P<name>.+) has no share left")),
    (ReasonKind.SLOT, re.compile(r"node (?P<name>.+) has no free slot")),
    (ReasonKind.SHUTDOWN, re.compile(r"node (?P<name>.+?) was shut down")),
)
_NAMED: Final = re.compile(r"\boccurrence (\d+)\b")


def read_reason(text: str | None) -> Reason | None:
    """Parse a reason. Return None if it is another kind of sentence."""
    for kind, pattern in _PATTERNS:
        if (found := pattern.match(text or "")) is not None:
            named = found.groupdict()
            ref = named.get("ref")
            return Reason(kind, None if ref is None else Ref(int(ref)), named.get("name"))
    return None


def named_occurrences(text: str | None) -> list[Ref]:
    """Return the occurrences that a sentence names."""
    return [Ref(int(number)) for number in _NAMED.findall(text or "")]
