"""What the page about tokens says of access is what the program does."""

from __future__ import annotations

import inspect
import re

from itinerary.model.scopes import Scope
from itinerary.model.tokens import KEPT_FOR, TOKENS_MAX
from itinerary.operations.tokens import EXPIRES_AFTER, FRESH_FOR, STALE_FOR
from itinerary.schedules.durations import SECOND
from itinerary.web.access import RateLimits, rejections
from itinerary.web.access.headers import BYTES_MAX, COUNT_MAX
from itinerary.web.access.sessions import SESSION_FOR
from tests.docs.pages import DOCS, Page, code


def page() -> Page:
    return Page(DOCS / "how-to/tokens.md")


def test_every_rejection_is_on_the_page_with_its_status_why_and_what_helps() -> None:
    made = re.findall(r'Rejection\((\d+), "(\w+)"', inspect.getsource(rejections))
    assert len(made) == len(rejections.__all__) - 1, "each but the methods makes one"
    table = page().table("Code", "Status", "Why", "What helps")
    assert sorted((status, code(name)) for name, status, _, _ in table) == sorted(made)
    assert all(why and helps for *_, why, helps in table)


def test_every_scope_is_on_the_page() -> None:
    assert [code(scope) for scope, _ in page().table("Scope", "May")] == list(Scope)


def test_the_numbers_on_the_page_are_those_of_the_program() -> None:
    limits, said = RateLimits(), page().text
    for number in (
        f"at most {FRESH_FOR // SECOND} second later",
        f"for {STALE_FOR // SECOND // 60} minutes",
        f"after {SESSION_FOR // SECOND // 3_600} hours",
        f"expires after {EXPIRES_AFTER.removesuffix('d')} days",
        f"for {KEPT_FOR // SECOND // 86_400} days",
        f"at most {TOKENS_MAX:,}",
        f"more than {COUNT_MAX} headers, or more than {BYTES_MAX:,} bytes",
        f"{limits.reads_per_second:.0f} a second for looking and {limits.changes_per_second:.0f} for changing",
        f"after {limits.reads_at_once} and {limits.changes_at_once} at once",
        f"more than {limits.failures_at_once} tokens that were none",
    ):
        assert number in said, number
