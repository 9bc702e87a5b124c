"""The list of changes has words for every kind of change."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from itinerary.model.rows import EntryKind
from itinerary.web.change_log import ChangeEntry
from itinerary.web.pages.templates import drawn

AT = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.spec("Q2", "the trail")
@pytest.mark.parametrize("kind", [kind for kind in EntryKind if kind is not EntryKind.ZONE])
def test_each_kind_of_change_is_shown_with_who_made_it(kind: EntryKind) -> None:
    change = ChangeEntry(
        revision=1,
        at=AT,
        by="anna",
        kind=kind,
        job=None if kind is EntryKind.PRUNE else "backup",
        more=0,
        version=1,
        subject="1767225600000000" if kind is EntryKind.SKIP else "keep_for 30d",
        reason=None,
        effective_from=AT,
    )
    page = " ".join(str(drawn("audit/changes.html", changes=[change], before=None, following=None)).split())
    assert '<th scope="row">anna</th>' in page
    assert ("backup" in page) == (change.job is not None)
    assert ("pruned the history" in page) == (kind is EntryKind.PRUNE)
