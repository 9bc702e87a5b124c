"""The page about `explain` says what the program says (U4)."""

from __future__ import annotations

from enum import StrEnum

import pytest

from itinerary import explain as explaining
from itinerary.explain import Cause, Explanation, RunResult
from tests.docs.pages import code, reference

PAGE = reference("explain")


@pytest.mark.spec("U4", "documented")
@pytest.mark.parametrize(
    ("choices", "header"),
    [(RunResult, ("RunResult", "Meaning")), (Cause, ("Cause", "Why"))],
    ids=["fates", "causes"],
)
def test_every_code_is_in_the_reference(choices: type[StrEnum], header: tuple[str, ...]) -> None:
    assert [code(row[0]) for row in PAGE.table(*header)] == [choice.value for choice in choices]


@pytest.mark.spec("U4", "documented")
def test_every_key_of_the_json_is_in_the_reference() -> None:
    assert [code(row[0]) for row in PAGE.table("Key", "Meaning")] == list(Explanation.__struct_fields__)


def test_every_public_name_is_in_the_reference() -> None:
    assert not [name for name in explaining.__all__ if f"`{name}`" not in PAGE.prose]
