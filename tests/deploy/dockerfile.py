"""`deploy/Dockerfile`, read into stages and instructions, and what Docker gets to see of this checkout."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["ROOT", "Instruction", "Stage", "context", "stages"]

ROOT: Final = Path(__file__).parents[2]


class Instruction(NamedTuple):
    """An instruction: its keyword, such as `RUN`, and the rest of the line."""

    keyword: str
    rest: str

    @property
    def words(self) -> list[str]:
        """The rest of the line, split as a shell splits it."""
        return shlex.split(self.rest)


class Stage(NamedTuple):
    """A base image, and the instructions that follow it."""

    base: str
    name: str | None
    instructions: list[Instruction]

    def all(self, keyword: str) -> list[Instruction]:
        """Return the instructions with this keyword."""
        return [one for one in self.instructions if one.keyword == keyword]

    def variables(self) -> dict[str, str]:
        """Return what ENV sets."""
        return dict(pair.split("=", 1) for one in self.all("ENV") for pair in one.words)


def stages() -> tuple[list[Instruction], list[Stage]]:
    """Read the Dockerfile: what stands before the first FROM, and the stages."""
    text = (ROOT / "deploy/Dockerfile").read_text("utf-8")
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    before: list[Instruction] = []
    found: list[Stage] = []
    for line in filter(None, map(str.strip, lines)):
        keyword, _, rest = line.partition(" ")
        if keyword == "FROM":
            base, *named = rest.split()
            found.append(Stage(base, named[1] if named else None, []))
        else:
            (found[-1].instructions if found else before).append(Instruction(keyword, rest.strip()))
    return before, found


def context() -> tuple[list[str], list[str]]:
    """Read .dockerignore: the patterns that shut out, and those that let in again."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    return [one for one in patterns if one[0] != "!"], [one[1:] for one in patterns if one[0] == "!"]
