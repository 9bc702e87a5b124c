"""Template filters for instants, durations, states and addresses.

    {{ run.started_at | instant }}       <time datetime="…">, which the script shows in the user's own zone
    {{ step.at | instant("precise") }}   the same, to the millisecond
    {{ run.reason | cut(200) | linked }} at most 200 characters, with links to the occurrences in the text
    {{ run.took_seconds | span }}        1.2 s
    {{ run.state | state }}              a word with a dot of its colour, never the colour alone
    {{ job | job_url }}                  the address of the job's page

Text from users (names, reasons, output) is only written through `{{ }}`, which escapes it.
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
"""Names that are safe in a path. Other names are replaced by their id: browsers resolve `..` and `/` as path steps."""


_NAMED: Final = re.compile(r"\b(occurrence )([0-9]{1,18})\b")


def instant(at: datetime | None, form: str = "full") -> Markup:
    """Format an instant: in UTC as sent, and in the user's zone once the script has run."""
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
    """Format a duration in its two largest units."""
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
    """Format a distance from an instant: negative before it, positive after it."""
    if seconds is None:
        return "–"
    return f"+{span(seconds)}" if seconds >= 0 else span(seconds)


def state(name: Any) -> Markup:
    """Format a state as a word, with a dot of its colour."""
    text = str(name)
    return Markup('<span class="state state-{}">{}</span>').format(re.sub(r"[^a-z_]", "", text), text.replace("_", " "))


def cut(text: str | None, length: int) -> str:
    """Shorten a text to `length` characters."""
    if text is None or len(text) <= length:
        return text or ""
    return f"{text[:length]}… ({len(text) - length:,} more characters)"


def linked(text: str) -> Markup:
    """Escape a sentence, and link the occurrences that it names."""
    found = _NAMED.sub(r'\1<a href="/runs/\2">\2</a>', str(escape(text)))
    return Markup(found)  # noqa: S704 - it is escaped, and what is added is a number


def job_url(name: str) -> str:
    """Return the address of a job's page."""
    plain = _PLAIN_NAME.fullmatch(name) is not None
    return f"/jobs/{quote(name, safe='')}" if plain else f"/jobs/{job_id(name)}"


def desk_url(name: str) -> str:
    """Return the address of a record scheduler's page."""
    plain = _PLAIN_NAME.fullmatch(name) is not None
    return f"/records/{quote(name, safe='')}" if plain else f"/records/={name.encode().hex()}"


def desk_of_url(said: str) -> str:
    """Return the record scheduler that the last part of such an address names."""
    try:
        return bytes.fromhex(said[1:]).decode() if said.startswith("=") else said
    except ValueError:
        return said


def local(said: str) -> str:
    """Format an input for a date and time field: in UTC, without an offset."""
    try:
        at = datetime.fromisoformat(said)
        return f"{at.astimezone(UTC) if at.tzinfo else at:%Y-%m-%dT%H:%M:%S}"
    except (ValueError, OverflowError):
        return said


def same_instant(said: str, at: datetime) -> bool:
    """True if the input is this instant."""
    try:
        typed = datetime.fromisoformat(said)
    except ValueError:
        return False
    return (typed if typed.tzinfo else typed.replace(tzinfo=UTC)) == at


def run_url(number: int) -> str:
    """Return the address of an occurrence's page."""
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
