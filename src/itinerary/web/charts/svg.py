"""SVG elements, and whole pictures.

    picture(300, 40, "Starts", element("rect", x=0, y=4, width=12, height=8, class_="fill-good"))

Attribute names have `_` for `-`; names that Python reserves, such as `class_`, end in `_`. Values and text are escaped,
numbers are written short, and None values are omitted.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from markupsafe import Markup, escape

__all__ = ["Value", "element", "joined", "number", "picture"]

Value = str | float | None


def number(value: float) -> str:
    """Format a number with at most one decimal: a tenth of a pixel is invisible."""
    return f"{value:.1f}".removesuffix(".0")


def element(name: str, *children: str, **attributes: Value) -> Markup:
    """Return an element. Markup children are kept as they are; other text is escaped."""
    written = "".join(
        [f' {_attribute(key)}="{_value(value)}"' for key, value in attributes.items() if value is not None]
    )
    inner = "".join([child if type(child) is Markup else escape(child) for child in children])
    body = f"<{name}{written}>{inner}</{name}>" if inner else f"<{name}{written}/>"
    return Markup(body)  # noqa: S704 - all values and children are escaped


def picture(
    width: float, height: float, title: str, *children: str, class_: str = "picture", is_whole: bool = True
) -> Markup:
    """Return a picture with its title, which screen readers announce. `is_whole`: the picture contains no links."""
    return element(
        "svg",
        element("title", title),
        *children,
        class_=class_,
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
        role="img" if is_whole else "group",
        aria_label=title,
    )


def joined(parts: Iterable[Markup]) -> Markup:
    """Join elements into one text."""
    return Markup().join(parts)


@cache
def _attribute(key: str) -> str:
    """Return the SVG name of an attribute. All names come from our own source, so the cache stays small."""
    return key.rstrip("_").replace("_", "-")


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return value if value.isalnum() else escape(value)  # fast path: nearly all values are alphanumeric
    return number(value)
