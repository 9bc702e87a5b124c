"""Reasons that name something: what is written is what is read."""

from __future__ import annotations

import pytest

from itinerary.model.reasons import (
    Reason,
    ReasonKind,
    called_by,
    lacks_share,
    lacks_slot,
    named_occurrences,
    overlaps,
    read_reason,
    replaced_by,
    waits_for,
)
from itinerary.model.rows import Ref

SEVEN = Ref(7)


@pytest.mark.spec("U4", "overlapped, by which")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (overlaps(SEVEN), Reason(ReasonKind.OVERLAPS, SEVEN)),
        (f"{overlaps(SEVEN)}, and 3 stand in line already", Reason(ReasonKind.OVERLAPS, SEVEN)),
        (waits_for(SEVEN), Reason(ReasonKind.WAITS, SEVEN)),
        (called_by(SEVEN), Reason(ReasonKind.CALLED, SEVEN)),
        ("its turn has come", Reason(ReasonKind.CALLED)),
        (replaced_by(SEVEN), Reason(ReasonKind.REPLACED, SEVEN)),
        (lacks_share("the api of 7"), Reason(ReasonKind.LIMIT, name="the api of 7")),
        (lacks_slot("node 7"), Reason(ReasonKind.SLOT, name="node 7")),
        ("paused by anna: she overlaps occurrence 7", None),
        ("", None),
        (None, None),
    ],
)
def test_what_a_reason_names_is_found_in_it_again(text: str | None, reason: Reason | None) -> None:
    assert read_reason(text) == reason


def test_every_occurrence_that_a_sentence_names_is_found() -> None:
    assert named_occurrences(called_by(SEVEN)) == [SEVEN]
    assert named_occurrences("occurrence 7 and occurrence 12, and occurrences 3") == [7, 12]
    assert named_occurrences(None) == []
