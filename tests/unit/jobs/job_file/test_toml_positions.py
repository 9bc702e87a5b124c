"""The lines of keys: every key that `tomllib` finds has the line in which it was written."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from itinerary.errors import ConfigError
from itinerary.jobs.job_file.toml_positions import NESTING_MAX, Path, positions


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Everything that has a place in a document."""
    if path:
        yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in parts:
        yield from paths(inner, (*path, key))


# -- documents of which the lines are known ----------------------------------------------------------------------------

DECOYS = ["k1 = 1", "[k2]", "[[k3]]", "# k4", "]", "}", '"', "'", "\\", "é", "k5.k6 = {", ",", "="]
BLANKS = ["", "\n", "  \n", "# a comment: k1 = 'x'\n", "\t# ]]\n\n"]


class Writer:
    """Writes a document, and notes the line of each key as it does."""

    def __init__(self, draw: Any) -> None:
        self.draw, self.text, self.lines, self.names = draw, "", dict[Path, int](), 0

    def pick(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    @property
    def line(self) -> int:
        return self.text.count("\n") + 1

    def note(self, path: Path) -> Path:
        self.lines.setdefault(path, self.line)
        return path

    def name(self) -> tuple[str, str]:
        """A new key, and how it is written."""
        self.names += 1
        key = f"k{self.names}"
        choices = [(key, key), (f"{key}.é", f'"{key}.\\u00e9"'), (f"{key} #", f"'{key} #'"), (f"-{key}", f"-{key}")]
        place: int = self.draw(st.integers(0, len(choices) - 1))
        return choices[place]

    def key(self, path: Path) -> tuple[Path, str]:
        """A key, with dots or without, below a path."""
        written = []
        for _ in range(self.draw(st.integers(1, 3))):
            name, shown = self.name()
            path = self.note((*path, name))
            written.append(shown)
        return path, self.pick(".", " . ", "\t.").join(written)

    def string(self) -> str:
        body = "".join(self.draw(st.lists(st.sampled_from(DECOYS), max_size=4)))
        plain = body.replace("\\", "\\\\").replace('"', '\\"')
        literal = body.replace("'", "")
        return str(
            self.pick(
                f'"{plain}"',
                f"'{literal}'",
                f'"""\n{plain}\nk9 = 9\n"""',
                f'"""{plain}"x""y"""""',
                f"'''\n{literal}'x\n''y'''''",
                f'"""a \\\n   {plain}"""',
            )
        )

    def space(self) -> str:
        return str(self.pick("", " ", "\n", " # k7 = ]\n  "))

    def value(self, path: Path, depth: int = 0) -> None:
        kind = self.pick("string", "plain", "list", "table") if depth < 3 else "plain"
        if kind == "string":
            self.text += self.string()
        elif kind == "plain":
            self.text += self.pick("1", "-0.5e3", "true", "1979-05-27 07:32:00Z", "2026-12-25", "inf", "0x1F")
        elif kind == "list":
            self.text += "[" + self.space()
            for place in range(self.draw(st.integers(0, 3))):
                self.text += ("," if place else "") + self.space()
                self.value(self.note((*path, place)), depth + 1)
                self.text += self.space()
            self.text += "]"
        else:
            self.text += "{ "
            for place in range(self.draw(st.integers(0, 3))):
                self.text += ", " if place else ""
                self.pair(path, depth + 1)
            self.text += " }"

    def pair(self, path: Path, depth: int = 0) -> None:
        path, written = self.key(path)
        self.text += written + self.pick("=", " = ", "\t=  ")
        self.value(path, depth)

    def pairs(self, path: Path) -> None:
        for _ in range(self.draw(st.integers(0, 3))):
            self.text += self.pick(*BLANKS) + self.pick("", "  ", "\t")
            self.pair(path)
            self.text += self.pick("", " ", " # the end, k8 = 1") + "\n"

    def document(self) -> str:
        lists: dict[Path, int] = {}
        tables: list[Path] = [()]
        self.pairs(())
        for _ in range(self.draw(st.integers(0, 5))):
            self.text += self.pick(*BLANKS)
            if lists and self.draw(st.booleans()):
                path = self.draw(st.sampled_from(sorted(lists)))  # one more element of a list that there is
                self.element(path, self.written(path), lists)
                path = (*path, lists[path] - 1)
            else:
                name, shown = self.name()
                above = () if not lists or self.draw(st.booleans()) else self.draw(st.sampled_from(sorted(lists)))
                before = f"{self.written(above)}." if above else ""
                path = (*above, lists[above] - 1, name) if above else (name,)
                if len(above) <= 1 and self.draw(st.booleans()):
                    self.element(path, before + shown, lists if not above else {})
                    path = (*path, 0)
                else:
                    self.note(path)
                    self.text += f"[ {before}{shown} ]{self.pick('', ' # x')}\n"
            tables.append(path)
            self.pairs(path)
        return self.text

    def element(self, path: Path, shown: str, lists: dict[Path, int]) -> None:
        self.note(path)
        place = lists.get(path, 0)
        self.note((*path, place))
        lists[path] = place + 1
        self.text += f"[[{shown}]]\n"

    def written(self, path: Path) -> str:
        return ".".join("'" + part + "'" if isinstance(part, str) else "" for part in path)


@st.composite
def documents(draw: Any) -> Writer:
    writer = Writer(draw)
    writer.document()
    return writer


@pytest.mark.spec("U2", "lines")
@settings(max_examples=150, deadline=None)
@given(documents())
def test_every_key_that_tomllib_finds_has_the_line_in_which_it_was_written(written: Writer) -> None:
    table = tomllib.loads(written.text)
    found = positions(written.text)
    assert set(found) == set(paths(table))
    assert found == written.lines


@settings(max_examples=300, deadline=None)
@example('""""""')
@given(st.text(st.sampled_from("\"'\\ab\n="), max_size=30))
def test_a_string_ends_where_tomllib_says_that_it_does(noise: str) -> None:
    for text in (
        f'a = """{noise}"""\nb = 1',
        f"a = '''{noise}'''\nb = 1",
        f'a = "{noise}"\nb = 1',
        f"a = '{noise}'\nb=1",
    ):
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            continue
        found = positions(text)
        assert set(found) == set(paths(table))
        assert found["b",] == text.count("\n") + 1


def test_lists_of_tables_inside_lists_of_tables_count_from_their_own_beginning() -> None:
    text = "[[a]]\n[[a.b]]\nx = 1\n[[a.b]]\n[a.b.c]\n[[a]]\n[[a.b]]\nx = 2\n[a.d.e]\n"
    assert positions(text) == {
        ("a",): 1,
        ("a", 0): 1,
        ("a", 0, "b"): 2,
        ("a", 0, "b", 0): 2,
        ("a", 0, "b", 0, "x"): 3,
        ("a", 0, "b", 1): 4,
        ("a", 0, "b", 1, "c"): 5,
        ("a", 1): 6,
        ("a", 1, "b"): 7,
        ("a", 1, "b", 0): 7,
        ("a", 1, "b", 0, "x"): 8,
        ("a", 1, "d"): 9,
        ("a", 1, "d", "e"): 9,
    }


@pytest.mark.spec("Q4", "nesting")
def test_nesting_has_a_limit() -> None:
    positions("a = " + "[" * NESTING_MAX + "]" * NESTING_MAX)
    with pytest.raises(ConfigError, match="nested more than 64 deep"):
        positions("a = " + "[" * (NESTING_MAX + 1) + "]" * (NESTING_MAX + 1))
