"""What a task's definition may say, and what is said about the rest."""

from __future__ import annotations

from typing import Any

import pytest

from itinerary.errors import ConfigError
from itinerary.executors.definitions import HttpCall, PythonCall, ShellCommand, read_task
from itinerary.executors.registry import Registry
from itinerary.executors.secrets import Secret


async def coroutine() -> None: ...


def plain() -> None: ...


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.register(coroutine, "jobs:coroutine")
    registry.register(plain, "jobs:plain")
    registry.register(plain, "jobs:outer.<locals>.inner")
    return registry


@pytest.mark.spec("X10", "definitions")
def test_a_command_is_read() -> None:
    run = {"shell": ["gzip", "-9"], "env": {"A": "b", "T": {"secret": "TOKEN"}}, "cwd": "data", "inherit_env": False}
    assert read_task(run) == ShellCommand(("gzip", "-9"), {"A": "b", "T": Secret("TOKEN")}, "data", False)


@pytest.mark.spec("Q3", "argv")
def test_text_goes_through_a_shell_only_if_that_is_asked_for() -> None:
    assert read_task({"shell": "ls | wc", "use_shell": True}) == ShellCommand(
        ("/bin/sh", "-c", "ls | wc"), {}, None, True
    )
    with pytest.raises(ConfigError, match=r"shell: text would have to go through /bin/sh; .* use_shell = true"):
        read_task({"shell": "ls | wc"})


@pytest.mark.spec("X10", "definitions")
def test_a_call_is_read() -> None:
    call = read_task({"http": "https://Example.org/x?y=1", "headers": {"A": {"secret": "T"}}, "body": {"a": [1]}})
    assert call == HttpCall(
        "https://Example.org/x?y=1",
        "example.org",
        443,
        "POST",
        {"A": Secret("T"), "Content-Type": "application/json"},
        b'{"a":[1]}',
        (200, 299),
    )
    assert isinstance(call, HttpCall)
    assert call.shown == "POST https://Example.org/x"


@pytest.mark.spec("X10", "definitions")
@pytest.mark.parametrize("executor", ["auto", "async", "thread", "process"])
def test_a_job_may_say_where_its_functions_run_and_have_commands_too(executor: str) -> None:
    """What a job sets cascades to all its tasks."""
    assert isinstance(read_task({"shell": ["true"]}, executor), ShellCommand)


@pytest.mark.spec("X10", "where a function runs")
@pytest.mark.parametrize(
    ("name", "executor", "why"),
    [
        ("jobs:plain", "async", "executor: jobs:plain is a plain function"),
        ("jobs:coroutine", "thread", "executor: jobs:coroutine is a coroutine function"),
        ("jobs:plain", "shell", "executor: 'shell' runs no functions"),
        ("jobs:plain", "cloud", "executor: 'cloud' is not installed"),
        ("jobs:outer.<locals>.inner", "process", "inside another function"),
    ],
)
def test_a_function_is_refused_where_it_cannot_run(registry: Registry, name: str, executor: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_task({"python": name}, executor, registry)


def test_a_function_goes_where_it_can_run(registry: Registry) -> None:
    for name, executor in [("jobs:plain", "thread"), ("jobs:coroutine", "async"), ("jobs:coroutine", "process")]:
        assert read_task({"python": name}, executor, registry) == PythonCall(name, executor)


@pytest.mark.spec("Q7", "unknown keys")
@pytest.mark.parametrize(
    ("run", "why"),
    [
        ("gzip", "a task is a table with one of the keys python, shell, http, pod"),
        ({}, "here is no keys"),
        ({"shel": ["ls"]}, "here is 'shel'"),
        ({"shell": ["ls"], "http": "https://x.org"}, "here are shell and http"),
        ({"shell": ["ls"], "user": "root"}, "user: unknown key"),
        ({"shell": ["ls"], "evn": {}}, "evn: unknown key; did you mean 'env'"),
        ({"python": "jobs:plain", "args": [1]}, "args: unknown key"),
        ({"python": 3}, "python: 3 is not a name"),
        ({"http": "https://x.org", "follow": True}, "follow: unknown key"),
        ({"shell": []}, "shell: a value of type 'list' is not a command"),
        ({"shell": {"a": 1}}, "shell: a value of type 'dict' is not a command"),
        ({"shell": [""]}, "shell.0: is empty"),
        ({"shell": ["ls", 3]}, "shell.1: 3 is not an argument"),
        ({"shell": ["a\0b"]}, "shell.0: .* without a NUL"),
        ({"shell": ["x"] * 1001}, "1001 arguments are too many; 1000 are allowed"),
        ({"shell": ["x" * 60_000] * 2}, "longer than 100000 characters together"),
        ({"shell": ["ls"], "use_shell": True}, "use_shell: goes with text"),
        ({"shell": "ls", "use_shell": "yes"}, "use_shell: 'yes' is not a switch"),
        ({"shell": ["ls"], "env": ["A=b"]}, "env: a value of type 'list' is not a table"),
        ({"shell": ["ls"], "env": {"A=": "b"}}, "env: 'A=' is not the name of a variable"),
        ({"shell": ["ls"], "env": {"A": 3}}, "env.A: 3 is neither text nor a reference"),
        ({"shell": ["ls"], "env": {"A": {"secret": "a b"}}}, "env.A.secret: 'a b' is not a name"),
        ({"shell": ["ls"], "env": {"A": {"secret": "X", "default": "y"}}}, "env.A: .* neither text nor a reference"),
        ({"shell": ["ls"], "cwd": 3}, "cwd: 3 is not a directory"),
        ({"http": "file:///etc/passwd"}, "http: scheme 'file' is not allowed"),
        ({"http": "https://"}, "names no host"),
        ({"http": "https://anna:pw@x.org/"}, "has a user name or password in it"),
        ({"http": "https://x.org:99999/"}, "this is not an address"),
        ({"http": "https://x.org/\r\nHost: y"}, "is not an address"),
        ({"http": "https://x.org\\@localhost/"}, "is not an address"),
        ({"http": "https://x.org", "method": "TRACE"}, "method: 'TRACE' is unknown"),
        ({"http": "https://x.org", "headers": {"Host": "y"}}, "headers.Host: is set by the call itself"),
        ({"http": "https://x.org", "headers": {"a b": "y"}}, "headers: 'a b' is not the name of a header"),
        ({"http": "https://x.org", "headers": {"A": "b\r\nC: d"}}, "headers.A: has a line break"),
        ({"http": "https://x.org", "expect": [299, 200]}, "expect: .* is not a range"),
        ({"http": "https://x.org", "expect": 200}, "expect: 200 is not a range"),
    ],
)
def test_what_is_wrong_is_named_by_its_key(registry: Registry, run: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_task(run, "auto", registry)


@pytest.mark.spec("Q7", "secrets")
def test_an_error_quotes_nothing_that_may_be_a_secret() -> None:
    for run in (
        {"shell": ["ls"], "env": {"A": "hunter2\0"}},
        {"http": "https://anna:hunter2@x.org/"},
        {"http": "https://x.org/", "headers": {"A": "hunter2\r\n"}},
    ):
        with pytest.raises(ConfigError) as caught:
            read_task(run)
        assert "hunter2" not in str(caught.value)
