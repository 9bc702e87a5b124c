"""Templates: everything is escaped, and an undefined name is an error instead of an empty text."""

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
"""The seconds between two preloaded templates, so that no request waits for all of them."""


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
    """Load all templates, one after another, so that the first view of a page does not wait for them."""
    for name in _environment().list_templates():
        _environment().get_template(name)
        await asyncio.sleep(_BETWEEN)


def drawn(template: str, /, **values: Any) -> Markup:
    """Render a template, as HTML that is safe to include in another."""
    return Markup(_environment().get_template(template).render(values))  # noqa: S704 - Jinja has escaped the values
