"""Keys: values as bytes that sort like the values, with readable words between them.

    job/<8 bytes>/occurrence/<8 bytes>/task/<8 bytes>/run

A *path* is written as `job/{job}/occurrence/{ref}`. Its parts are

    a number    eight bytes with the sign bit inverted, so that -1 sorts before 0
    a text      UTF-8, each NUL written as 00 FF, and a 00 at the end: "a" sorts before "ab", and no text is a prefix of
                another. Byte order is then the order of code points, as in Python

**Long texts.** LMDB allows keys of 511 bytes, but a name may have 255 characters of four bytes. For a text above `HEAD`
bytes the key holds the first `HEAD` bytes, the mark 00 FE, and a digest of the whole text. Different texts have
different keys (up to a collision of 160 bits). Keys sort like the texts, except long texts with the same first `HEAD`
bytes, which sort by digest. A scan sorts those by their rows, and `Path.tie` detects them. A long text cannot be read
back from a key.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from operator import call
from string import Formatter
from typing import Any, Final, NamedTuple

from itinerary.errors import UnwritableError
from itinerary.stores.tables import Table, Values

__all__ = ["HEAD", "KEY_MAX", "Path", "ScanBounds", "after"]

KEY_MAX: Final = 511
"""The limit of LMDB for a key, in bytes."""
HEAD: Final = 160
"""The bytes of a text in a key: two long texts and the words must fit into `KEY_MAX`."""

_END: Final = b"\x00"
_ESCAPED: Final = b"\x00\xff"
_LONG: Final = b"\x00\xfe"
_DIGEST: Final = 20
_LONG_SIZE: Final = HEAD + len(_LONG) + _DIGEST
_INT: Final = struct.Struct(">Q")
_SIGN: Final = 1 << 63


class ScanBounds(NamedTuple):
    """The bounds of a scan: the first bytes, and the end, which is excluded."""

    start: bytes
    stop: bytes


class Path:
    """The encoding of some values, in order, as a key."""

    def __init__(self, template: str, table: Table[Any]) -> None:
        columns = {column.name: column for column in table.columns}
        pieces = [(word.encode(), field) for word, field, _, _ in Formatter().parse(template)]
        self.template = template
        self.fields = tuple(field for _, field in pieces if field is not None)
        self._types = tuple(columns[field].type for field in self.fields)
        self._decode = tuple(columns[field].decode for field in self.fields)
        self._words = [word for word, _ in pieces]
        if len(self._words) == len(self.fields):
            self._words.append(b"")
        self._encoders: tuple[Callable[[Any], bytes], ...] = tuple(_ENCODERS[kind] for kind in self._types)
        self._formats = [b"%b".join(self._words[: count + 1]) for count in range(len(self._words))]
        self.has_text = str in self._types
        self._whole = _joiner(self._formats[-1], self._encoders) if self.has_text else _packer(self._words)
        self.size = None if self.has_text else len(self.key((0,) * len(self.fields)))
        """The length of the keys if it is constant.

        The length distinguishes them from other keys in the same subtree.
        """
        longest = sum(map(len, self._words)) + sum(8 if kind is int else _LONG_SIZE + 1 for kind in self._types)
        assert longest <= KEY_MAX, f"{template} can take {longest} bytes"

    def key(self, values: Values) -> bytes:
        """Return the key of these values. For the first values only, return the common prefix of all such keys.

        Raises:
            UnwritableError: A value cannot be part of a key.
        """
        try:
            if len(values) == len(self.fields):
                return self._whole(values)
            return self._formats[len(values)] % tuple(map(call, self._encoders, values))
        except (struct.error, UnicodeEncodeError) as error:
            raise self._unwritable(values, error) from error

    def bounds(self, prefix: Values, low: Values, high: Values) -> ScanBounds:
        """Return the bounds of a scan over keys that begin with `prefix` and continue from `low` to before `high`.

        If `low` or `high` has a long text, the bounds include all keys that tie with it.
        """
        below = self.key(prefix)
        start, _ = self._bound(len(prefix), low)
        stop, is_tied = self._bound(len(prefix), high)
        stop = below + stop
        return ScanBounds(below + start, stop if high and not is_tied else after(stop))

    def _bound(self, place: int, values: Values) -> tuple[bytes, bool]:
        """Return the values as bytes, up to the mark of the first long text, and True if there is one."""
        bound = b""
        try:
            parts = list(map(call, self._encoders[place:], values))
        except (struct.error, UnicodeEncodeError) as error:
            raise self._unwritable(values, error) from error
        for index, part in enumerate(parts, place):
            if index > place:
                bound += self._words[index]
            if self._types[index] is str and len(part) > HEAD + 1:
                return bound + part[:-_DIGEST], True
            bound += part
        return bound, False

    def _unwritable(self, values: Values, error: Exception) -> UnwritableError:
        return UnwritableError(f"{values!r} cannot stand in a key {self.template}: {error}")

    def tie(self, key: bytes, place: int, offset: int) -> bytes | None:
        """Return the prefix that a key shares with those among which it is unsorted, or None if it is sorted.

        Only the parts from `place` on count, which begin at `offset`. Earlier parts are constant during the scan.
        """
        if len(key) < offset + HEAD:
            return None  # the common case: too short for a long text
        for index in range(place, len(self.fields)):
            end, is_long = self._end(key, index, offset)
            if is_long:
                return key[: end - _DIGEST]
            offset = end + len(self._words[index + 1])
        return None

    def values(self, key: bytes) -> Values | None:
        """Return the values of a key, or None if a value is too long to be in it."""
        values: list[Any] = []
        offset = len(self._words[0])
        for index, kind in enumerate(self._types):
            end, is_long = self._end(key, index, offset)
            if is_long:
                return None
            if kind is int:
                values.append(_INT.unpack_from(key, offset)[0] - _SIGN)
            else:
                text = key[offset : end - 1].replace(_ESCAPED, b"\x00").decode()
                decode = self._decode[index]
                values.append(decode[text] if decode else text)
            offset = end + len(self._words[index + 1])
        return tuple(values)

    def _end(self, key: bytes, index: int, offset: int) -> tuple[int, bool]:
        """Return the end of the part that begins here, and True if the part is a long text."""
        if self._types[index] is int:
            return offset + 8, False
        end = key.index(_END, offset)
        while key[end + 1 : end + 2] == b"\xff":
            end = key.index(_END, end + 2)
        if key[end + 1 : end + 2] == b"\xfe":
            return end + len(_LONG) + _DIGEST, True
        return end + 1, False


def after(beginning: bytes) -> bytes:
    """Return the first bytes behind every key that begins like this."""
    return beginning[:-1] + bytes([beginning[-1] + 1])


def _int(value: int) -> bytes:
    return _INT.pack(value + _SIGN)


@lru_cache(maxsize=4_096)
def _text(value: str) -> bytes:
    plain = value.encode()
    escaped = plain.replace(b"\x00", _ESCAPED)
    if len(escaped) <= HEAD:
        return escaped + _END
    head = escaped[:HEAD].removesuffix(b"\x00")  # never cut an escape in half: its 00 would look like an end
    return head + _LONG + blake2b(plain, digest_size=_DIGEST).digest()


def _joiner(template: bytes, encoders: tuple[Callable[[Any], bytes], ...]) -> Callable[[Values], bytes]:
    return lambda values: template % tuple(map(call, encoders, values))


def _packer(words: list[bytes]) -> Callable[[Values], bytes]:
    """Return a function that packs a key of numbers in one call: a third of the time, and most keys are numbers."""
    pack = struct.Struct(">" + "Q".join(f"{len(word)}s" for word in words)).pack
    match words:
        case [only]:
            return lambda _: only
        case [before, after_it]:
            return lambda values: pack(before, values[0] + _SIGN, after_it)
        case [before, between, after_it]:
            return lambda values: pack(before, values[0] + _SIGN, between, values[1] + _SIGN, after_it)
        case [before, *others]:
            return lambda values: (
                before + b"".join(_int(value) + word for value, word in zip(values, others, strict=True))
            )
    raise AssertionError("a key has at least one word")


_ENCODERS: Final[dict[type, Callable[[Any], bytes]]] = {int: _int, str: _text}
