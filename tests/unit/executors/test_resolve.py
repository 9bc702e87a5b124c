"""A name leads to functions of allowed modules, and never out of them through what these import (Q3)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from itinerary.errors import ConfigError
from itinerary.executors.registry import Registry

pytestmark = pytest.mark.spec("Q3", "modules")

REPORTS = """
import functools, os, os.path
from os import abort, environ, getenv
from os.path import join
from functools import cached_property, lru_cache, partial, wraps

from bureau import helpers
from bureau.helpers import outside as imported
from archive import dusty, Shelf

def daily(): ...
@lru_cache
def cached(): ...
@helpers.timed
def decorated(): ...
class Press:
    @classmethod
    def start(cls): ...
    @staticmethod
    def stop(): ...
    def __call__(self): ...
    def run(self): ...
class Bookcase(Shelf): ...
press = Press()
bookcase = Bookcase()
bound = partial(daily)
unbound = partial(os.abort)
borrowed = partial(dusty)
names = {}
"""
HELPERS = """
import functools
def outside(): ...
def timed(function):
    @functools.wraps(function)
    def inner(): return function()
    return inner
"""
ARCHIVE = """
def dusty(): ...
class Shelf:
    def clear(self): ...
    def __call__(self): ...
"""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A registry that allows the package `bureau`, whose module `reports` imports others."""
    (tmp_path / "bureau").mkdir()
    (tmp_path / "bureau" / "__init__.py").write_text("from bureau import reports\n")
    (tmp_path / "bureau" / "reports.py").write_text(REPORTS)
    (tmp_path / "bureau" / "helpers.py").write_text(HELPERS)
    (tmp_path / "archive.py").write_text(ARCHIVE)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] in {"bureau", "archive"}]:
        monkeypatch.delitem(sys.modules, name)
    return Registry(["bureau"])


@pytest.mark.parametrize(
    "name",
    ["daily", "cached", "decorated", "imported", "Press.start", "Press.stop", "press", "press.run", "bound"],
)
def test_a_function_of_an_allowed_module_is_found(registry: Registry, name: str) -> None:
    assert registry.find(f"bureau.reports:{name}").name == f"bureau.reports:{name}"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("os.environ.copy", "leads through the module os"),
        ("os.abort", "leads through the module os"),
        ("os.path.join", "leads through the module os"),
        ("helpers.outside", r"by its own module: 'bureau\.helpers:function'"),
        ("os", "this is the module os; name a function of it"),
        ("abort", "this is a builtin"),
        ("names.clear", "its code is in the module builtins, which is not allowed"),
        ("environ.copy", "its code is in the module os, which is not allowed"),
        ("getenv", "its code is in the module os, which is not allowed"),
        ("join", "its code is in the module posixpath, which is not allowed"),
        ("functools.partial", "leads through the module functools"),
        ("unbound", "this is a builtin"),
        ("borrowed", "its code is in the module archive, which is not allowed"),
        ("dusty", "its code is in the module archive, which is not allowed"),
        ("Shelf.clear", "its code is in the module archive, which is not allowed"),
        ("bookcase.clear", "its code is in the module archive, which is not allowed"),
        ("daily.__globals__.clear", "__globals__ belongs to Python itself"),
        ("daily.__class__", "__class__ belongs to Python itself"),
        ("decorated.__wrapped__", "__wrapped__ belongs to Python itself"),
        ("__builtins__.exec", "__builtins__ belongs to Python itself"),
        ("cached.cache_clear", "leads through a function"),
        ("Press.mro", "this is a builtin"),
    ],
)
def test_no_name_leads_out_of_the_allowed_modules(registry: Registry, name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        registry.find(f"bureau.reports:{name}")
    assert registry.known(f"bureau.reports:{name}") is None


def test_a_submodule_of_an_allowed_package_is_named_by_its_own_name(registry: Registry) -> None:
    with pytest.raises(ConfigError, match=r"name the function by its own module: 'bureau\.reports:function'"):
        registry.find("bureau:reports.daily")
    assert registry.find("bureau.reports:daily").name == "bureau.reports:daily"


def test_a_name_of_a_job_file_is_registered_and_what_was_merely_imported_is_not(registry: Registry) -> None:
    registry.find("bureau.reports:daily")
    assert not registry.is_registered("bureau.reports:daily")
    registry.register_name("bureau.reports:daily")
    assert registry.is_registered("bureau.reports:daily")
    with pytest.raises(ConfigError, match="may not be imported"):
        registry.register_name("os:abort")


def test_a_function_of_itinerary_is_found_and_neither_registered_nor_its_module_allowed() -> None:
    registry = Registry()
    registry.register_internal(lambda: None, "itinerary.executors.async_iteration:iterated")
    assert registry.find("itinerary.executors.async_iteration:iterated").is_coroutine is False
    assert not registry.is_registered("itinerary.executors.async_iteration:iterated")
    assert registry.allowed == ()
