"""Rows for tests that do not care what is in them: made from the declared tables, so that they follow those."""

from __future__ import annotations

from typing import Any

from itinerary.model.occurrence import Kind
from itinerary.stores.tables import ACTIVE, EVENTS, OCCURRENCES, Column, R, Table, Values
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.conftest import Opened

__all__ = ["active", "add", "event", "everything", "keys_of", "occurrence", "sample"]

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


def occurrence(instant: int, job: int = 1, **values: Any) -> Any:
    return sample(OCCURRENCES, instant=instant, job=job, kind=Kind.SCHEDULED, **values)


def active(*keys: tuple[int, int]) -> list[Any]:
    return [sample(ACTIVE, job=job, ref=ref, due_at=10 * ref) for job, ref in keys]


def event(stream: str, partition: str, sequence: int, **values: Any) -> Any:
    return sample(EVENTS, stream=stream, partition=partition, sequence=sequence, **values)


def everything(store: Opened, table: Table[Any]) -> list[Any]:
    return store.read(lambda tx: tx.scan(table, limit=10_000))


def add(table: Table[Any], rows: list[Any], tx: Transaction) -> list[Any]:
    return tx.add(table, rows)


def keys_of(table: Table[Any], rows: list[Any]) -> list[Values]:
    return [table.key_of(row) for row in rows]
