"""The message of an exception, at a cost that is bounded by the length of the kept text.

`str(ValueError(rows))` writes out all rows, and no other thread of the process runs until it is done. So the arguments
of an exception are measured first. Small ones are written out as usual. Large ones show only their beginning, with a
note that they are large. A custom `__str__` is called: only its program knows the cost.
"""

import types
from inspect import getattr_static
from reprlib import Repr
from typing import Any, Final

from itinerary.model.json_size import TooDeep, json_size_at_least
from itinerary.model.text import MESSAGE_MAX, clean_text

__all__ = ["ARGUMENTS_MAX", "bounded_repr", "is_heavy", "is_light", "kind_name", "message_of"]

ARGUMENTS_MAX: Final = 65_536
"""The largest arguments of an exception that are written out, in approximate bytes of JSON."""
_KIND_MAX: Final = 255
_UNSHOWN: Final = "<its message cannot be shown: {}>"
_LIGHT: Final = (UnicodeError,)
"""Exceptions that hold a large value but have a short message."""


class _Brief(Repr):
    """A formatter that shows the beginning of built-in values.

    Other values show their type only: the cost of their `__repr__` is unknown.
    """

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 200
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = 10
        self.maxlevel = 4

    def repr_instance(self, x: Any, level: int) -> str:  # noqa: ARG002 - reprlib's arguments
        if type(x) in (bytes, bytearray):
            return repr(bytes(x[: self.maxstring])) + "…" if len(x) > self.maxstring else repr(x)
        return repr(x) if isinstance(x, bool | float | types.NoneType) else f"<{kind_name(type(x))}>"

    def repr_int(self, x: int, level: int) -> str:  # noqa: ARG002 - reprlib's arguments
        return repr(x) if int.bit_length(x) <= 128 else f"<a number of {int.bit_length(x)} bits>"


_BRIEF: Final = _Brief()


def is_heavy(value: object, limit: int = ARGUMENTS_MAX) -> bool:
    """True if a value is larger than the limit, contains itself, or cannot be measured."""
    try:
        return json_size_at_least(value, limit) >= limit
    except (TooDeep, Exception):  # noqa: BLE001 - a value that cannot be inspected is not written out
        return True


def bounded_repr(value: object) -> str:
    """Return the beginning of a value, in at most a few thousand characters."""
    try:
        return clean_text(_BRIEF.repr(value), MESSAGE_MAX)
    except Exception:  # noqa: BLE001 - a value that cannot be shown must not hide the message that contains it
        return f"<{kind_name(type(value))}>"


def kind_name(kind: type) -> str:
    """Return the name of a type, cut to a short length."""
    name = kind.__qualname__
    return name if len(name) <= _KIND_MAX else f"{name[:_KIND_MAX]}…"


def message_of(error: BaseException) -> str:
    """Return `str(error)`, cut to the beginning and the end if it is longer than MESSAGE_MAX characters."""
    try:
        return clean_text(_message(error), MESSAGE_MAX)
    except Exception as second:  # noqa: BLE001 - an exception that cannot be shown must not hide that it was raised
        return _UNSHOWN.format(kind_name(type(second)))


def is_light(error: BaseException) -> bool:
    """True if `str(error)` is cheap, or if a custom `__str__` makes its cost unknown."""
    written_here = isinstance(getattr_static(type(error), "__str__"), types.FunctionType)
    if written_here or isinstance(error, _LIGHT):
        return True
    names = (error.filename, error.filename2) if isinstance(error, OSError) else ()
    return not is_heavy((error.args, names))


def _message(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return f"{clean_text(error.message)} ({len(error.exceptions)} sub-exceptions)"
    if is_light(error):
        return str.__str__(str(error))
    match error.args:
        case (str() as only,):
            return str.__str__(only)
        case (only,):
            return f"{bounded_repr(only)} (shown in part: it is large)"
        case several:
            return f"{bounded_repr(several)} (shown in part: the arguments are large)"
