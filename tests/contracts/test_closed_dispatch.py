"""Every decision over a policy is closed: a policy that gets a new member cannot be forgotten anywhere.

A policy is asked through its properties in `model/policies.py`, or by a `match` that ends in `assert_never`. The type
checker proves it: in a copy in which each policy has one member more, it names every such `match`.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "itinerary"
POLICIES = SOURCE / "model" / "policies.py"
_CLASS = re.compile(r"^class (\w+)\(StrEnum\):\n(    \"\"\".*?\"\"\"\n)", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^(.+?):\d+: error: .*assert_never", re.MULTILINE)


def policies() -> list[str]:
    return [name for name, _ in _CLASS.findall(POLICIES.read_text())]


def modules() -> Iterator[tuple[Path, ast.Module]]:
    """The modules that name a policy. The simulation is left out: its checker judges by itself."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        if "simulate" not in path.parts and any(f"{name}." in text for name in policies()):
            yield path, ast.parse(text)


def member(node: ast.AST) -> str | None:
    """Return the policy that a node names a member of."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in policies():
        return node.value.id
    return None


def decided(match: ast.Match) -> set[str]:
    """Return the policies that a `match` decides over."""
    patterns = [one for case in match.cases for one in ast.walk(case.pattern)]
    return {name for one in patterns if isinstance(one, ast.MatchValue) and (name := member(one.value))}


def decisions() -> list[tuple[Path, ast.Match]]:
    return [
        (path, node)
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Match) and decided(node)
    ]


def test_each_policy_is_decided_over_somewhere() -> None:
    assert len(policies()) == 8
    assert {name for _, match in decisions() for name in decided(match)} == set(policies())


def test_no_program_compares_a_policy_with_one_of_its_members() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and any(member(one) for one in ast.walk(node))
    ]
    aliases = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in modules()
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and member(node.value)
    ]
    assert found + aliases == []


def test_the_type_checker_names_every_decision_when_each_policy_gets_a_member(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "itinerary", ignore=shutil.ignore_patterns("__pycache__"))
    copy = tmp_path / "itinerary" / "model" / "policies.py"
    copy.write_text(_CLASS.sub(lambda found: f'{found[0]}    UNHEARD_OF = "unheard_of"\n', copy.read_text()))
    made_longer = [
        copy.read_text().count("UNHEARD_OF", 0, found.start()) for found in _CLASS.finditer(copy.read_text())
    ]
    assert made_longer == list(range(len(policies())))
    wanted = Counter(path.relative_to(SOURCE).as_posix() for path, match in decisions() if ends_closed(match))
    assert wanted.total() == len(decisions())
    checked = subprocess.run(  # noqa: S603 - ourselves
        [
            *(sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")),
            *("--follow-imports=silent", "--no-error-summary", "--cache-dir", str(tmp_path / "cache")),
            *(f"itinerary/{name}" for name in sorted(wanted)),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=1_200,
    )
    named = Counter(name.removeprefix("itinerary/") for name in _NAMED.findall(checked.stdout))
    assert {name: named[name] for name in wanted} == wanted, checked.stdout + checked.stderr


def ends_closed(match: ast.Match) -> bool:
    """True if the last case of a decision takes everything, and is `assert_never`."""
    last = match.cases[-1]
    takes_all = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
    return takes_all and ast.unparse(last.body[-1]).startswith("assert_never(")
