"""Reasons that name something, written and read in one place.

Why an occurrence was skipped, queued or held up is kept as a sentence in its audit trail. Where that sentence names
another occurrence, a limit or a node, whoever is asked for the cause later has to find it again. So these sentences are
made here, and read back here: what one of them says is what `read_reason` finds in it.
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
"""What a node says of a jump of its time that took no time: whoever reads it later tells it from the others."""


BEFORE_THE_CALL: Final = "before its function was called"
"""What a shutdown says of a run that had started in the store, and of which no function had been called."""


class ReasonKind(StrEnum):
    """What such a reason is about."""

    OVERLAPS = "overlaps"
    """Another occurrence of its job was in the way, and it was skipped."""
    WAITS = "waits"
    """Another occurrence of its job is in the way, and it stands in line."""
    CALLED = "called"
    """It has left the line: another one has ended."""
    REPLACED = "replaced"
    """A newer one takes its place."""
    UNSURE = "unsure"
    """The node of the run in its job's slot is silent: until it is known to be alive or dead, this one waits."""
    LIMIT = "limit"
    SLOT = "slot"
    SHUTDOWN = "shutdown"
    """Its node was shut down."""


class Reason(NamedTuple):
    """A reason, read."""

    kind: ReasonKind
    ref: Ref | None = None
    name: str | None = None
    """The limit, or the node."""


def overlaps(ref: Ref) -> str:
    """Why one is skipped: another one is in its job's slot."""
    return f"overlaps occurrence {ref}"


def waits_for(ref: Ref) -> str:
    """Why one stands in line: another one is in its job's slot."""
    return f"waits for occurrence {ref}"


def queues_for(ref: Ref) -> str:
    """Why one that is late stands in line, and is not skipped: the other one began, or was called, after it was due."""
    return f"{waits_for(ref)}, which was not running yet when this one was due"


def called_by(ref: Ref) -> str:
    """Why one that stood in line has the slot: it was handed to it by one that ended."""
    return f"its turn has come: occurrence {ref} has ended"


def replaced_by(ref: Ref) -> str:
    """Why one does not run, or runs no longer: a newer one takes its place."""
    return f"replaced by occurrence {ref}"


UNSURE_OF: Final = "waits to learn what became of occurrence "


def unsure_of(ref: Ref, why: str) -> str:
    """Why one waits and is not skipped yet: nothing proves that the run in its job's slot still runs."""
    return f"{UNSURE_OF}{ref}: {why}"


def lacks_share(limit: str) -> str:
    """Why one is held up: all shares of a limit are taken."""
    return f"limit {limit} has no share left"


def lacks_slot(node: str) -> str:
    """Why one is held up: its node runs as many as it may."""
    return f"node {node} has no free slot"


def shut_down(node: str) -> str:
    """Return why an occurrence was interrupted or cancelled: its node was shut down."""
    return f"node {node} was shut down"


def given_back(node: str, *, has_run: bool, was_called: bool) -> str:
    """Return why an occurrence is given back. A function of it was interrupted, or at least called once, or neither."""
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
    """What a reason names; None if it is another kind of sentence."""
    for kind, pattern in _PATTERNS:
        if (found := pattern.match(text or "")) is not None:
            named = found.groupdict()
            ref = named.get("ref")
            return Reason(kind, None if ref is None else Ref(int(ref)), named.get("name"))
    return None


def named_occurrences(text: str | None) -> list[Ref]:
    """The occurrences that a sentence names."""
    return [Ref(int(number)) for number in _NAMED.findall(text or "")]
