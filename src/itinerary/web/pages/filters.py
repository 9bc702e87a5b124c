"""Instants, durations, states and addresses, as all templates write them.

    {{ run.started_at | instant }}       <time datetime="…">, which the script shows in the reader's own zone
    {{ step.at | instant("precise") }}   the same, to the millisecond
    {{ run.reason | cut(200) | linked }} no more than so many characters, with links to the occurrences that it names
    {{ run.took_seconds | span }}        1.2 s
    {{ run.state | state }}              a word with a dot of its colour, never the colour alone
    {{ job | job_url }}                  where its page is

What comes from people (names, reasons, output) is only ever written through `{{ }}`, which escapes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup, escape

from itinerary.model.ids import job_id

__all__ = [
    "FILTERS",
    "GLOBALS",
    "cut",
    "desk_of_url",
    "desk_url",
    "instant",
    "job_url",
    "linked",
    "local",
    "offset",
    "run_url",
    "same_instant",
    "span",
    "state",
]

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_~@:+ -][A-Za-z0-9._~@:+ -]*")
"""Names that are safe in a path: others are called by their id there, since browsers take `..` and `/` for steps."""


_NAMED: Final = re.compile(r"\b(occurrence )([0-9]{1,18})\b")


def instant(at: datetime | None, form: str = "full") -> Markup:
    """An instant: in UTC as it is sent, and in the reader's zone when the script has run."""
    if at is None:
        return Markup('<span class="none">–</span>')
    moment = at.astimezone(UTC)
    shown = f"{moment:%H:%M:%S}" if form == "time" else f"{moment:%Y-%m-%d %H:%M:%S}"
    if form == "precise":
        shown += f".{moment.microsecond // 1_000:03}"
    return Markup('<time datetime="{}" data-form="{}">{} UTC</time>').format(
        moment.isoformat().replace("+00:00", "Z"), form, shown
    )


def span(seconds: float | None) -> str:
    """How long something took, in two figures that matter."""
    if seconds is None:
        return "–"
    sign, rest = ("−", -seconds) if seconds < 0 else ("", seconds)
    if rest < 0.9995:
        return f"{sign}{rest * 1_000:.0f} ms"
    if rest < 59.95:
        return f"{sign}{rest:.1f} s"
    whole = round(rest)
    for size, unit, smaller, name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            left = whole % size // smaller
            return f"{sign}{whole // size} {unit}" + (f" {left} {name}" if left else "")
    return f"{sign}{whole} s"


def offset(seconds: float | None) -> str:
    """How far something is from an instant: before it, or after it."""
    if seconds is None:
        return "–"
    return f"+{span(seconds)}" if seconds >= 0 else span(seconds)


def state(name: Any) -> Markup:
    """A state in a word, with a dot of its colour."""
    text = str(name)
    return Markup('<span class="state state-{}">{}</span>').format(re.sub(r"[^a-z_]", "", text), text.replace("_", " "))


def cut(text: str | None, length: int) -> str:
    """The beginning of a text that may be very long."""
    if text is None or len(text) <= length:
        return text or ""
    return f"{text[:length]}… ({len(text) - length:,} more characters)"


def linked(text: str) -> Markup:
    """A sentence in which the occurrences that it names lead to their pages."""
    found = _NAMED.sub(r'\1<a href="/runs/\2">\2</a>', str(escape(text)))
    return Markup(found)  # noqa: S704 - it is escaped, and what is added is a number


def job_url(name: str) -> str:
    """Where the page of a job is."""
    plain = _PLAIN_NAME.fullmatch(name) is not None
    return f"/jobs/{quote(name, safe='')}" if plain else f"/jobs/{job_id(name)}"


def desk_url(name: str) -> str:
    """Where the page of a desk is."""
    plain = _PLAIN_NAME.fullmatch(name) is not None
    return f"/records/{quote(name, safe='')}" if plain else f"/records/={name.encode().hex()}"


def desk_of_url(said: str) -> str:
    """The desk that the last part of such an address names."""
    try:
        return bytes.fromhex(said[1:]).decode() if said.startswith("=") else said
    except ValueError:
        return said


def local(said: str) -> str:
    """What somebody typed, as a field for a date and a time shows it: in UTC, without an offset."""
    try:
        at = datetime.fromisoformat(said)
        return f"{at.astimezone(UTC) if at.tzinfo else at:%Y-%m-%dT%H:%M:%S}"
    except (ValueError, OverflowError):
        return said


def same_instant(said: str, at: datetime) -> bool:
    """Whether somebody typed this instant."""
    try:
        typed = datetime.fromisoformat(said)
    except ValueError:
        return False
    return (typed if typed.tzinfo else typed.replace(tzinfo=UTC)) == at


def run_url(number: int) -> str:
    """Where the page of an occurrence is."""
    return f"/runs/{number}"


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "desk_url": desk_url,
    "instant": instant,
    "span": span,
    "offset": offset,
    "state": state,
    "cut": cut,
    "linked": linked,
    "job_url": job_url,
    "local": local,
    "run_url": run_url,
    "same_instant": same_instant,
}
GLOBALS: Final[Mapping[str, Any]] = {}
