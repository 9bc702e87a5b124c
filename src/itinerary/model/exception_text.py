"""The message of an exception, at a cost that is bounded by what is kept of it.

`str(ValueError(rows))` writes out all rows, while no other thread of the process runs. So the arguments of an exception
are measured first. Light ones are written out as always. Of heavy ones the beginning is shown, with how much there is
at least. A `__str__` that a program has written itself is called: only that program knows what it costs.
"""

import types
from inspect import getattr_static
from reprlib import Repr
from typing import Any, Final

from itinerary.model.json_size import TooDeep, json_size_at_least
from itinerary.model.text import MESSAGE_MAX, clean_text

__all__ = ["ARGUMENTS_MAX", "bounded_repr", "is_heavy", "is_light", "kind_name", "message_of"]

ARGUMENTS_MAX: Final = 65_536
"""How large the arguments of an exception may be to be written out, in bytes of JSON or so."""
_KIND_MAX: Final = 255
_UNSHOWN: Final = "<its message cannot be shown: {}>"
_LIGHT: Final = (UnicodeError,)
"""Exceptions that hold something large, and whose message is short all the same."""


class _Brief(Repr):
    """Beginnings of built-in values; of all else the type, since only its program knows what its `__repr__` costs."""

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
    except (TooDeep, Exception):  # noqa: BLE001 - a value whose parts cannot even be looked at is not written out
        return True


def bounded_repr(value: object) -> str:
    """Show the beginning of a value, in at most a few thousand characters."""
    try:
        return clean_text(_BRIEF.repr(value), MESSAGE_MAX)
    except Exception:  # noqa: BLE001 - what cannot be shown must not hide what it is part of
        return f"<{kind_name(type(value))}>"


def kind_name(kind: type) -> str:
    """Name a type, briefly."""
    name = kind.__qualname__
    return name if len(name) <= _KIND_MAX else f"{name[:_KIND_MAX]}…"


def message_of(error: BaseException) -> str:
    """Return what `str(error)` says, of a long message the beginning and the end (MESSAGE_MAX characters)."""
    try:
        return clean_text(_message(error), MESSAGE_MAX)
    except Exception as second:  # noqa: BLE001 - an exception that cannot be shown must not hide that it was raised
        return _UNSHOWN.format(kind_name(type(second)))


def is_light(error: BaseException) -> bool:
    """True if `str(error)` costs little, or if only its program knows what it costs."""
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
