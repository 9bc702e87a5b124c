"""Templates: everything is escaped, and a name that there is not is an error rather than an empty place."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from itinerary.web.charts.elapsed import elapsed_bar
from itinerary.web.charts.strip import strip
from itinerary.web.pages import filters as wording
from itinerary.web.static import static_url

__all__ = ["drawn", "read_ahead"]

_BETWEEN: Final = 0.02
"""Seconds between two templates that are read ahead, so that nobody waits for all of them."""


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("itinerary.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= wording.FILTERS
    environment.globals |= {"static": static_url, "elapsed_bar": elapsed_bar, "strip": strip, **wording.GLOBALS}
    return environment


async def read_ahead() -> None:
    """Read all templates, one after another: whoever looks at a page first does not wait for that."""
    for name in _environment().list_templates():
        _environment().get_template(name)
        await asyncio.sleep(_BETWEEN)


def drawn(template: str, /, **values: Any) -> Markup:
    """A template with these values, as HTML that is safe to put into another."""
    return Markup(_environment().get_template(template).render(values))  # noqa: S704 - Jinja has escaped the values
