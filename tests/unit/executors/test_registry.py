"""Code is found by name: what is registered, and what the operator allows to be imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from itinerary.errors import ConfigError
from itinerary.executors.registry import Registry

pytestmark = pytest.mark.spec("Q3", "modules")


def known() -> None: ...


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that nobody has imported yet."""
    folder = tmp_path / "laundry"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "wash.py").write_text(
        "def cold(): ...\n"
        "class Handle:\n"
        "    def __init__(self, function): self.__wrapped__ = function\n"
        "@Handle\n"
        "def wrapped(ctx): ...\n"
        "class Drum:\n"
        "    @staticmethod\n"
        "    def spin(): ...\n"
    )
    (folder / "broken.py").write_text("import laundry.soap\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "laundry"]:
        monkeypatch.delitem(sys.modules, name)
    return "laundry"


def test_what_is_registered_is_found_under_its_name() -> None:
    registry = Registry()
    name = registry.register(known)
    assert name == f"{__name__}:known"
    assert registry.find(name).call is known
    assert registry.check(name) == name
    assert registry.allowed == (__name__,)


def test_a_name_is_given_once() -> None:
    registry = Registry()
    registry.register(known, "jobs:known")
    registry.register(known, "jobs:known")
    with pytest.raises(ConfigError, match="jobs:known is registered already"):
        registry.register(lambda: None, "jobs:known")


def test_nothing_is_imported_that_is_not_allowed(package: str) -> None:
    registry = Registry(["laundry.dry"])
    for name in ("os:system", "laundry.wash:cold", "laundry:x", "laundry.dryer:hot", "builtins:exec"):
        with pytest.raises(ConfigError, match=r"may not be imported \(allowed: laundry.dry\)"):
            registry.find(name)
    assert "laundry" not in sys.modules


def test_a_prefix_allows_what_is_below_it_and_checking_imports_nothing(package: str) -> None:
    registry = Registry(["laundry"])
    registry.check("laundry.wash:cold")
    assert "laundry" not in sys.modules
    assert registry.known("laundry.wash:cold") is None
    assert registry.find("laundry.wash:cold") is registry.known("laundry.wash:cold")
    assert registry.find("laundry.wash:Drum.spin").takes_context is False


def test_a_module_of_which_something_is_registered_is_allowed(package: str) -> None:
    registry = Registry()
    registry.register(known, "laundry.wash:known")
    assert registry.find("laundry.wash:cold").name == "laundry.wash:cold"
    with pytest.raises(ConfigError, match="may not be imported"):
        registry.find("laundry.broken:x")


def test_what_a_decorator_wrapped_is_found_behind_it(package: str) -> None:
    assert Registry(["laundry"]).find("laundry.wash:wrapped").takes_context


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("laundry.iron:press", "there is no module laundry.iron on this node"),
        ("laundry.wash:hot", "laundry.wash has no hot"),
        ("laundry.wash:Drum.stop", "laundry.wash has no Drum.stop"),
        ("laundry.wash:f.<locals>.g", "inside another function"),
    ],
)
@pytest.mark.spec("D9", "code that is gone")
def test_a_name_that_leads_nowhere_says_where_it_ends(package: str, name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Registry(["laundry"]).find(name)


def test_a_module_that_misses_another_says_which_itself(package: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"laundry\.soap"):
        Registry(["laundry"]).find("laundry.broken:x")


@pytest.mark.parametrize("name", ["", "os", "os.system", "os:", ":system", "os:a b", "../os:system", "a" * 600 + ":b"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a name; write 'package\.module:function'"):
        Registry(["os"]).find(name)


def test_an_allow_list_holds_modules() -> None:
    with pytest.raises(ConfigError, match=r"allowed modules: 'laundry\.\*' is not a module"):
        Registry(["laundry.*"])
