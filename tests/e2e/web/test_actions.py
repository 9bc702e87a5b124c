"""Every action in a real browser: in a dialog, by keyboard alone, and without a script (U10)."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from itinerary.model.ids import job_id
from tests.e2e.web.lively import HOSTILE
from tests.e2e.web.looking import Look, is_wider_than_its_window, tripping_over
from tests.local_callers import ME


def offered(page: Page, what: str, job: str) -> Locator:
    """A link to an action, as pages have them."""
    page.goto("/audit")
    address = f"/actions/{what}?job={job_id(job)}"
    page.evaluate(
        """address => {
            const link = document.createElement("a");
            link.className = "button operates";
            link.href = address;
            link.textContent = "Act";
            document.querySelector("h1").after(link);
        }""",
        address,
    )
    return page.locator(f'a[href="{address}"]')


def notice(page: Page) -> Locator:
    """What is said once, on the page after."""
    page.wait_for_url(re.compile("/(jobs|runs|backfills)/"))
    return page.locator(".notice")


def changes(page: Page) -> Locator:
    """What people have changed, as the audit page lists it."""
    page.goto("/audit")
    return page.locator("#changes")


@pytest.mark.spec("U10", "pause, trigger, cancel, replay, backfill")
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("pause", "paused"),
        ("resume", "resumed"),
        ("stop", "stopped"),
        ("start", "started"),
        ("skip", "will skip"),
        ("remove", "removed"),
    ],
)
def test_an_action_is_asked_for_in_a_dialog_and_done(what: str, said: str, page: Page) -> None:
    offered(page, what, f"for {what}").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    assert tripping_over(page) == []
    dialog.get_by_label("Reason").fill(f"<b>{what}</b> by hand")
    dialog.locator("button.primary").click()
    expect(notice(page)).to_contain_text(f"for {what}")
    row = changes(page).get_by_role("row").filter(has_text=f"for {what}").first
    expect(row).to_contain_text(re.compile(rf"{ME}\s*{said} for {what}.*<b>{what}</b> by hand", re.DOTALL))


@pytest.mark.spec("U10", "trigger")
def test_a_run_is_asked_for_cancelled_and_replayed(page: Page) -> None:
    offered(page, "trigger", "endless").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    page.wait_for_url(re.compile(r"/runs/\d+$"))
    number = page.url.rpartition("/")[2]
    for what, button in (("cancel", "Cancel it"), ("replay", "Run again")):
        page.goto(f"/actions/{what}?run={number}")
        while what == "replay" and not page.locator(".state-cancelled").count():
            page.reload()  # what runs ends soon after it was told to
        page.get_by_role("button", name=button).click()
        page.wait_for_url(re.compile(r"/runs/\d+$"))
    assert page.url.rpartition("/")[2] != number
    page.goto(f"/actions/cancel?run={page.url.rpartition('/')[2]}")
    page.get_by_role("button", name="Cancel it").click()
    page.wait_for_url(re.compile(r"/runs/\d+$"))


@pytest.mark.spec("R4", "dry run")
def test_a_backfill_is_shown_first_keeps_what_was_typed_and_is_followed_to_its_end(page: Page) -> None:
    offered(page, "backfill", "for backfill").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("From").fill("2020-01-02T05:30:00")
    dialog.get_by_label("To").fill("2020-01-01T05:30:00")
    dialog.get_by_label("Reason").fill("history")
    dialog.get_by_role("button", name="Show what would run").click()
    expect(dialog.get_by_role("alert")).to_contain_text("ends before it starts")
    expect(dialog.get_by_label("From")).to_have_value(re.compile("2020-01-02T05:30"))
    expect(dialog.get_by_label("Reason")).to_have_value("history")
    dialog.get_by_label("To").fill("2020-01-04T05:30:00")  # 05:30 in Kolkata is midnight in UTC
    dialog.get_by_role("button", name="Show what would run").click()
    expect(dialog.get_by_role("status")).to_contain_text("2 of 2 instants would run")
    dialog.get_by_role("button", name="Run them").click()
    expect(page.locator("#backfill")).to_contain_text("2 of 2 runs have ended")
    expect(page.locator("#backfill")).to_contain_text("It has ended.")


@pytest.mark.spec("U10", "by keyboard")
def test_a_dialog_is_used_by_keyboard_alone(page: Page) -> None:
    link = offered(page, "pause", "for dialog")
    link.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Pause for dialog")
    expect(dialog.get_by_label("Until")).to_be_focused()
    for _ in range(20):  # round and round, and never out of it
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement === document.body || !!document.activeElement.closest('dialog')")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(link).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_label("Reason").focus()
    page.keyboard.type("typed, and sent with Enter")
    page.keyboard.press("Enter")
    expect(notice(page)).to_have_text("Paused for dialog")
    page.reload()
    expect(page.locator(".notice")).to_have_count(0)


def test_an_action_works_without_a_script(look: Look) -> None:
    page = look.page(has_script=False)
    page.goto(f"/actions/pause?job={job_id('for plain')}")
    page.get_by_label("Reason").fill("no script")
    page.get_by_role("button", name="Pause").click()
    page.wait_for_url("**/jobs/for%20plain")
    row = changes(page).get_by_role("row").filter(has_text="for plain").first
    expect(row).to_contain_text("no script")


@pytest.mark.spec("Q2", "all output is escaped")
def test_a_job_with_a_hostile_name_is_acted_on_and_stays_text(look: Look) -> None:
    page = look.page(width=380, scheme="dark")
    offered(page, "pause", HOSTILE).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text(f"Pause {HOSTILE}")
    assert not is_wider_than_its_window(page)
    assert tripping_over(page) == []
    dialog.get_by_role("button", name="Pause").click()
    page.wait_for_url(f"**/jobs/{job_id(HOSTILE)}")
    expect(notice(page)).to_have_text(f"Paused {HOSTILE}")
