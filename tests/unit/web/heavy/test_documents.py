"""A job file on its way from a worker process: it arrives as it was read."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.jobs.job_file.document import document_of
from itinerary.web.heavy.documents import SENT_FILE, pack_document, unpack_document
from itinerary.web.problems import RequestRefused

EVERYTHING = """
title = "jobs"
count = 9_223_372_036_854_775_807
share = 0.25
endless = inf
off = false
day = 2026-03-29
at = 02:30:00.125
local = 2026-03-29T02:30:00
moment = 2026-03-29T02:30:00+02:00
utc = 2026-03-29T00:30:00Z

[[jobs.backup.tasks]]
shell = ["true", "ü"]
starts = [2026-01-01, { at = 2026-01-02T03:04:05Z }]
"""


@pytest.mark.spec("Q4", "windows")
def test_every_value_and_every_line_of_a_file_arrives_as_it_was_read() -> None:
    document = document_of(SENT_FILE, EVERYTHING)
    arrived = unpack_document(pack_document(document))
    assert arrived == document
    assert [type(arrived.table[key]) for key in ("day", "at", "local", "moment")] == [
        type(document.table[key]) for key in ("day", "at", "local", "moment")
    ]
    assert math.isinf(arrived.table["endless"])


@given(st.text())
def test_any_text_arrives(text: str) -> None:
    written = "".join(f"\\U{ord(one):08x}" for one in text if not 0xD800 <= ord(one) <= 0xDFFF)
    document = document_of(SENT_FILE, f'text = "{written}"')
    assert unpack_document(pack_document(document)) == document


def test_a_number_that_is_too_large_to_send_is_refused() -> None:
    with pytest.raises(RequestRefused, match="more than 64 bits"):
        pack_document(document_of(SENT_FILE, f"count = {2**64}"))
