"""Rows for tests that do not care what is in them: made from the declared tables, so that they follow those."""

from __future__ import annotations

from typing import Any

from itinerary.stores.tables import Column, R, Table

__all__ = ["sample"]

_PLAIN: dict[type, Any] = {int: 0, str: "", bytes: b"", bool: False}


def sample(table: Table[R], **values: Any) -> R:
    """A row of this table with these values, and the plainest ones elsewhere."""
    unknown = set(values) - set(table.names)
    assert not unknown, f"{table} has no {unknown}"
    return table.row(*(values.get(column.name, _plainest(column)) for column in table.columns))


def _plainest(column: Column) -> Any:
    if column.is_optional:
        return None
    if column.decode is not None and column.type is not bool:
        return next(iter(column.decode.values()))
    return _PLAIN[column.type]
