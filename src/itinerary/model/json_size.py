"""The size of a value as JSON, measured before it is encoded.

A task may return a gigabyte. Encoding it only to find that it is too long takes seconds. No other thread of the process
runs then, because the encoder holds the interpreter lock. So the value is measured first, and measuring stops at the
limit:

    text, bytes           by their length, without reading them
    lists, tuples, sets   two bytes an element, known from their length; then each element
    dicts                 four bytes an entry, known from their length; then each key and value
    structs, dataclasses  each field
    other values          one byte: they are small, or the encoder refuses them

The result is a lower bound, never more than what the encoder writes. Every inspected element has been counted, so the
work is bounded by the limit and not by the value. Overridden methods of a subclass (`__len__`, `__iter__`) are not
called. The encoder does not call them either.
"""

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from enum import Enum
from itertools import chain
from typing import Any, Final

import msgspec

__all__ = ["DEPTH_MAX", "TooDeep", "json_size_at_least"]

DEPTH_MAX: Final = 1_000
"""The deepest nesting of values. A value that contains itself exceeds any limit."""

_BITS_PER_DIGIT: Final = 3.33
_WORD_BYTES, _DIGITS_PER_WORD = 8, 19
"""A Decimal keeps 19 digits in each word of eight bytes."""
_DECIMAL_OVERHEAD: Final = Decimal(0).__sizeof__()

Opened = tuple[int, Iterator[Any] | None]
"""The bytes of a value itself, and the values inside it."""


class TooDeep(Exception):
    """The value is nested deeper than DEPTH_MAX, or contains itself."""


def json_size_at_least(value: object, limit: int) -> int:
    """Return a lower bound of the size of a value as JSON, in bytes.

    Args:
        value: Any value. The function neither changes nor encodes it.
        limit: The size at which measuring stops. A larger result may be far below the real size.

    Raises:
        TooDeep: The value contains itself, or is nested too deeply.
    """
    size, levels = 1, [iter((value,))]
    while levels:
        for item in levels[-1]:
            own, inside = _open(item)
            size += own - 1  # the container already counted one byte
            if size >= limit:
                return size
            if inside is not None:
                if len(levels) > DEPTH_MAX:
                    raise TooDeep
                levels.append(inside)
                break
        else:
            levels.pop()
    return size


def _open(value: object) -> Opened:
    opener = _OPENERS.get(type(value))
    if opener is not None:
        return opener(value)
    for kind, of_subclass in _OPENERS_OF_SUBCLASSES:
        if isinstance(value, kind):
            return of_subclass(value)
    kind = type(value)
    if hasattr(kind, "__dataclass_fields__"):
        return _fields(value, list(kind.__dataclass_fields__))
    if hasattr(kind, "__attrs_attrs__"):
        return _fields(value, [field.name for field in kind.__attrs_attrs__ if not field.name.startswith("_")])
    return 1, None


def _text(value: str) -> Opened:
    return str.__len__(value) + 2, None


def _base64(length: int) -> Opened:
    return 4 * ((length + 2) // 3) + 2, None


def _number(value: int) -> Opened:
    return max(int(int.bit_length(value) / _BITS_PER_DIGIT), 1), None


def _decimal(value: Decimal) -> Opened:
    words = (Decimal.__sizeof__(value) - _DECIMAL_OVERHEAD) // _WORD_BYTES
    return max((words - 1) * _DIGITS_PER_WORD, 1), None


def _sequence(length: int, items: Iterator[Any]) -> Opened:
    return (2, None) if not length else (2 * length + 1, items)


def _dict(value: dict[Any, Any]) -> Opened:
    length = dict.__len__(value)
    return (2, None) if not length else (4 * length + 1, chain.from_iterable(dict.items(value)))


def _struct(value: msgspec.Struct) -> Opened:
    names: Iterable[str] = value.__struct_fields__
    if value.__struct_config__.omit_defaults:
        names = _written_fields(value)
    return _fields(value, names)


def _written_fields(value: msgspec.Struct) -> Iterator[str]:
    """Yield the written fields of a struct that omits defaults: neither a default nor empty."""
    names = value.__struct_fields__
    defaults = dict(zip(reversed(names), reversed(value.__struct_defaults__), strict=False))
    for name in names:
        item = getattr(value, name, msgspec.UNSET)
        if item is not defaults.get(name, msgspec.NODEFAULT) and not _is_empty(item):
            yield name


def _is_empty(value: object) -> bool:
    return isinstance(value, list | dict | set) and not value


def _fields(value: object, names: Iterable[str]) -> Opened:
    """Return the size and the values of fields. Names, and fields without a written value, count as nothing."""
    items = [getattr(value, name, msgspec.UNSET) for name in names]
    written = [item for item in items if item is not msgspec.UNSET]
    return (2 + len(written), iter(written)) if written else (2, None)


_OPENERS: Final[dict[type, Callable[[Any], Opened]]] = {
    str: _text,
    int: _number,
    list: lambda value: _sequence(len(value), iter(value)),
    tuple: lambda value: _sequence(len(value), iter(value)),
    dict: _dict,
    bool: lambda _: (4, None),
    type(None): lambda _: (4, None),
    float: lambda _: (1, None),
    bytes: lambda value: _base64(len(value)),
    bytearray: lambda value: _base64(len(value)),
    memoryview: lambda value: _base64(value.nbytes),
    Decimal: _decimal,
    msgspec.Raw: lambda value: (max(memoryview(value).nbytes, 1), None),
}
_OPENERS_OF_SUBCLASSES: Final[tuple[tuple[type, Callable[[Any], Opened]], ...]] = (
    (Enum, lambda value: (1, iter((value._value_,)))),
    (str, _text),
    (list, lambda value: _sequence(list.__len__(value), list.__iter__(value))),
    (tuple, lambda value: _sequence(tuple.__len__(value), tuple.__iter__(value))),
    (dict, _dict),
    (set, lambda value: _sequence(set.__len__(value), set.__iter__(value))),
    (frozenset, lambda value: _sequence(frozenset.__len__(value), frozenset.__iter__(value))),
    (bytes, lambda value: _base64(bytes.__len__(value))),
    (int, _number),
    (msgspec.Struct, _struct),
)
