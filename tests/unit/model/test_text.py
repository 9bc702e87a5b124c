"""Text from outside is made fit for every store, or refused."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.errors import RecordError
from itinerary.model.codec import RESULT_MAX, result_json
from itinerary.model.text import MESSAGE_MAX, clean_text, shown

anything = st.text(st.characters(exclude_categories=[]), max_size=200)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=4),
)


@pytest.mark.spec("D2", "text from outside")
@given(anything, st.integers(0, 100))
def test_a_clean_text_is_short_enough_and_can_be_stored_anywhere(text: str, limit: int) -> None:
    cleaned = clean_text(text, limit)
    assert len(cleaned) <= limit
    assert "\0" not in cleaned
    assert "\x1b" not in cleaned
    assert cleaned.encode().decode() == cleaned


@pytest.mark.spec("D2", "text from outside")
@given(anything, st.integers(0, 100))
def test_cleaning_twice_is_cleaning_once(text: str, limit: int) -> None:
    once = clean_text(text, limit)
    assert clean_text(once, limit) == once


@pytest.mark.spec("D2", "text from outside")
def test_ordinary_text_is_left_alone() -> None:
    text = "Traceback:\n\tFile “größe.py”, line 1 — 日本 🎉"
    assert clean_text(text) == text


@pytest.mark.spec("D2", "text from outside")
def test_what_cannot_be_stored_leaves_a_mark() -> None:
    assert clean_text("a\0b\ud800c\x1b[31m\r\nd") == "a\ufffdb\ufffdc\ufffd[31m\nd"


@pytest.mark.spec("D2", "text from outside")
def test_a_long_text_keeps_its_beginning_and_its_end_and_says_what_is_gone() -> None:
    cleaned = clean_text("first line\n" + "x" * 50_000_000 + "\nValueError: the point")
    assert len(cleaned) == MESSAGE_MAX
    assert cleaned.startswith("first line\nxxx")
    assert cleaned.endswith("xxx\nValueError: the point")
    assert "characters and this note left out" in cleaned


@pytest.mark.spec("X10", "result")
@given(json_values)
def test_a_json_value_is_kept_as_it_is(value: object) -> None:
    assert msgspec.json.decode(result_json(value)) == value


@pytest.mark.spec("X10", "result")
def test_a_result_of_64_kb_is_refused_and_one_byte_less_is_kept() -> None:
    assert len(result_json("x" * (RESULT_MAX - 3))) == RESULT_MAX - 1
    with pytest.raises(RecordError, match="65536 bytes of JSON; it must be under 65536"):
        result_json("x" * (RESULT_MAX - 2))


@pytest.mark.spec("X10", "result")
def test_what_is_not_json_is_refused_with_the_reason() -> None:
    loop: list[object] = []
    loop.append(loop)
    for value in (object(), {"a": {1j}}, {(1, 2): 3}, "\ud800", loop, lambda: None):
        with pytest.raises(RecordError, match="is not JSON"):
            result_json(value)


@pytest.mark.spec("X10", "result")
def test_a_nul_in_a_result_is_refused_and_the_text_for_one_is_not() -> None:
    with pytest.raises(RecordError, match="NUL"):
        result_json({"a": ["x\0"]})
    with pytest.raises(RecordError, match="NUL"):
        result_json("\\\0")
    assert result_json("\\u0000") == '"\\\\u0000"'


@pytest.mark.spec("D2", "text from outside")
def test_any_value_can_be_quoted_briefly() -> None:
    for value in ("x" * 10**7, 10**5_000, -(10**5_000), 1.5, None, True, [[]], object(), "\ud800\0"):
        assert len(shown(value)) < 120
        assert shown(value).isprintable()
