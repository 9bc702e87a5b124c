"""Elements of SVG, and a whole picture.

    picture(300, 40, "Starts", element("rect", x=0, y=4, width=12, height=8, class_="fill-good"))

Names of attributes are written with `_` for `-`; `class_` and others that Python keeps for itself end in one. Values
and text are escaped, numbers are written short, and what is None is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from markupsafe import Markup, escape

__all__ = ["Value", "element", "joined", "number", "picture"]

Value = str | float | None


def number(value: float) -> str:
    """A number with at most one decimal: a tenth of a pixel is more than can be seen."""
    return f"{value:.1f}".removesuffix(".0")


def element(name: str, *children: str, **attributes: Value) -> Markup:
    """One element. Children that are Markup stay as they are, other text is escaped."""
    written = "".join(
        [f' {_attribute(key)}="{_value(value)}"' for key, value in attributes.items() if value is not None]
    )
    inner = "".join([child if type(child) is Markup else escape(child) for child in children])
    body = f"<{name}{written}>{inner}</{name}>" if inner else f"<{name}{written}/>"
    return Markup(body)  # noqa: S704 - all values and children are escaped


def picture(
    width: float, height: float, title: str, *children: str, class_: str = "picture", is_whole: bool = True
) -> Markup:
    """A picture with its title, which screen readers say in its place. `is_whole`: nothing in it can be followed."""
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
    """Several elements as one text."""
    return Markup().join(parts)


@cache
def _attribute(key: str) -> str:
    """They are written in our own sources, so there are few."""
    return key.rstrip("_").replace("_", "-")


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return value if value.isalnum() else escape(value)  # which nearly all are
    return number(value)
