"""Task definitions: read, and checked as far as possible without running the task.

    {"python": "package.module:function"}                                      PythonCall
    {"shell": ["gzip", "-9", "out.csv"], "env": {…}, "cwd": "data"}            ShellCommand
                                                                               (`input` is its standard input)
    {"http": "https://…", "method": "POST", "headers": {…}, "body": …}         HttpCall
    {"pod": {"image": "local/train:1", "command": ["train"]}}                  PodTask
    {"python": "package.module:function", "pod": {"image": …}}                 PodTask, which runs a function
    {"<kind>": …}                                                              ForeignTask, of an entry point

`read_task` checks the tasks of a job at its registration. A definition that passes can still fail, but not because of a
spelling mistake. Unknown keys are errors (Q7). Errors begin with the key, list the allowed values, and quote no value
that may be a secret. The user that a task runs as is not part of any definition: it is a setting of the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from itinerary.errors import ConfigError
from itinerary.executors.entry_points import check_foreign, is_installed
from itinerary.executors.http_definition import HTTP_KEYS, HttpCall, read_http
from itinerary.executors.pods.definition import PodTask, read_pod
from itinerary.executors.registry import Registry, is_importable
from itinerary.executors.secrets import Value, read_value
from itinerary.model.task import JsonObject
from itinerary.model.text import shown
from itinerary.model.validators import check_keys

__all__ = [
    "BUILT_IN",
    "FUNCTION_EXECUTORS",
    "TASK_KEYS",
    "ForeignTask",
    "HttpCall",
    "PodTask",
    "PythonCall",
    "ShellCommand",
    "TaskDefinition",
    "read_environment",
    "read_http",
    "read_python",
    "read_shell",
    "read_task",
]

FUNCTION_EXECUTORS: Final = ("auto", "async", "thread", "process")
"""Where a function may run. `auto` runs a coroutine function as async, and a plain function in a thread."""

BUILT_IN: Final = (*FUNCTION_EXECUTORS, "shell", "http", "pod")
"""The executors of Itinerary. For these, the keys of a task name what runs. Any other name is an entry point."""

TASK_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "python": ("python",),
    "shell": ("shell", "env", "cwd", "inherit_env", "use_shell", "input"),
    "http": HTTP_KEYS,
    "pod": ("pod",),
}
"""The allowed keys of a task, by the key that names its kind."""

_KINDS: Final = tuple(TASK_KEYS)
_ARGUMENTS_MAX: Final = 1_000
_VARIABLES_MAX: Final = 1_000
_COMMAND_MAX: Final = 100_000
_INPUT_MAX: Final = 100_000


class PythonCall(msgspec.Struct, frozen=True):
    """A function to call."""

    name: str
    executor: str


class ShellCommand(msgspec.Struct, frozen=True):
    """A program to run, or a command line for /bin/sh with `use_shell`."""

    arguments: tuple[str, ...]
    env: Mapping[str, Value]
    cwd: str | None
    inherit_env: bool
    input: Value | None = None
    """The standard input; None for no input."""


class ForeignTask(msgspec.Struct, frozen=True):
    """A task for an executor that is found through an entry point."""

    executor: str


TaskDefinition: TypeAlias = PythonCall | ShellCommand | HttpCall | PodTask | ForeignTask


def read_task(run: object, executor: str = "auto", registry: Registry | None = None) -> TaskDefinition:
    """Read a task definition.

    Args:
        run: The table of the task.
        executor: The name of the executor.
        registry: The known functions, for more checks.

    Raises:
        ConfigError: If the definition is wrong. The message begins with the key.
    """
    if not isinstance(run, Mapping):
        raise ConfigError(f"a task is a table with one of the keys {', '.join(_KINDS)}, not {shown(run)}")
    if executor not in BUILT_IN:
        check_foreign(executor, run)
        return ForeignTask(executor)
    match [kind for kind in _KINDS if kind in run]:
        case ["python"]:
            return read_python(run, executor, registry)
        case ["shell"]:
            return read_shell(run)
        case ["http"]:
            return read_http(run)
        case ["pod"]:
            return read_pod(check_keys("task", run, TASK_KEYS["pod"])["pod"])
        case ["python", "pod"]:
            return _read_function_in_pod(run, executor, registry)
        case []:
            return _read_foreign(run)
        case several:
            raise ConfigError(f"a task has one of the keys {', '.join(_KINDS)}; here are {' and '.join(several)}")


def read_python(run: JsonObject, executor: str = "auto", registry: Registry | None = None) -> PythonCall:
    """Read a function call. If the function is known, also check that it can run on the executor."""
    check_keys("task", run, TASK_KEYS["python"])
    registry = Registry() if registry is None else registry
    name = registry.check(run["python"])
    if executor == "pod":
        raise ConfigError(f'pod: is missing; {name} runs in a pod, of an image that holds it: pod = {{ image = "…" }}')
    if executor not in FUNCTION_EXECUTORS:
        raise ConfigError(f"executor: {shown(executor)} runs no functions; allowed: {', '.join(FUNCTION_EXECUTORS)}")
    if executor == "process" and not is_importable(name):
        raise ConfigError(
            f"python: {name} is made by the program, or is inside another function, where a worker process cannot find "
            "it; make it a function of a module, or leave the executor out"
        )
    function = registry.known(name)
    if function is not None:
        check_place(name, executor, is_coroutine=function.is_coroutine)
    return PythonCall(name, executor)


def _read_function_in_pod(run: JsonObject, executor: str, registry: Registry | None) -> PodTask:
    """Read a function that runs in a pod, whose image contains the code (K6)."""
    if executor not in ("pod", "auto"):
        raise ConfigError(f"executor: {shown(executor)} runs no pods; say pod, or leave out what the pod is")
    check_keys("task", run, (*TASK_KEYS["python"], *TASK_KEYS["pod"]))
    name = (Registry() if registry is None else registry).check(run["python"])
    if not is_importable(name):
        raise ConfigError(
            f"python: {name} is made by the program, or is inside another function, where nobody in a pod can find it; "
            "make it a function of a module"
        )
    return read_pod(run["pod"])


def check_place(name: str, executor: str, *, is_coroutine: bool) -> None:
    """Raise ConfigError if a function cannot run on an executor."""
    if executor == "async" and not is_coroutine:
        raise ConfigError(
            f"executor: {name} is a plain function, which would block its loop; make it async, or say thread"
        )
    if executor == "thread" and is_coroutine:
        raise ConfigError(f"executor: {name} is a coroutine function, which a thread cannot await; say async")


def read_shell(run: JsonObject) -> ShellCommand:
    """Read a command. A list runs as it is. Text runs through /bin/sh, and only with `use_shell`."""
    check_keys("task", run, TASK_KEYS["shell"])
    use_shell = _switch(run, "use_shell", default=False)
    command = run["shell"]
    if isinstance(command, str):
        if not use_shell:
            raise ConfigError(
                'shell: text would have to go through /bin/sh; write a list such as ["gzip", "out.csv"], '
                "or add use_shell = true"
            )
        arguments: tuple[str, ...] = ("/bin/sh", "-c", _argument("shell", command))
    else:
        if use_shell:
            raise ConfigError("use_shell: goes with text; a list is run without a shell")
        arguments = _arguments(command)
    cwd = run.get("cwd")
    if cwd is not None and (not isinstance(cwd, str) or not cwd or "\0" in cwd):
        raise ConfigError(f"cwd: {shown(cwd)} is not a directory; write a path")
    env, inherit_env = read_environment(run.get("env", {})), _switch(run, "inherit_env", default=True)
    return ShellCommand(arguments, env, cwd, inherit_env, _input(run.get("input")))


def _input(given: object) -> Value | None:
    if given is None:
        return None
    found = read_value("input", given)
    if isinstance(found, str) and len(found) > _INPUT_MAX:
        raise ConfigError(f"input: is longer than {_INPUT_MAX} characters; have the command read a file")
    return found


def _arguments(command: object) -> tuple[str, ...]:
    if not isinstance(command, Sequence) or not command:
        raise ConfigError(f'shell: {shown(command)} is not a command; write a list such as ["gzip", "out.csv"]')
    if len(command) > _ARGUMENTS_MAX:
        raise ConfigError(f"shell: {len(command)} arguments are too many; {_ARGUMENTS_MAX} are allowed")
    arguments = tuple(_argument(f"shell.{place}", argument) for place, argument in enumerate(command))
    if not arguments[0]:
        raise ConfigError("shell.0: is empty; it names the program")
    if sum(map(len, arguments)) > _COMMAND_MAX:
        raise ConfigError(f"shell: the arguments are longer than {_COMMAND_MAX} characters together; use a file")
    return arguments


def _argument(key: str, argument: object) -> str:
    if not isinstance(argument, str) or "\0" in argument:
        raise ConfigError(f"{key}: {shown(argument)} is not an argument; write text without a NUL")
    if len(argument) > _COMMAND_MAX:
        raise ConfigError(f"{key}: is longer than {_COMMAND_MAX} characters; use a file")
    return argument


def read_environment(env: object) -> dict[str, Value]:
    """Read a table of variables: text, or references to secrets. Raises ConfigError, which begins with `env`."""
    if not isinstance(env, Mapping):
        raise ConfigError(f"env: {shown(env)} is not a table of variables")
    if len(env) > _VARIABLES_MAX:
        raise ConfigError(f"env: {len(env)} variables are too many; {_VARIABLES_MAX} are allowed")
    for name in env:
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise ConfigError(f"env: {shown(name)} is not the name of a variable")
    return {name: read_value(f"env.{name}", value) for name, value in env.items()}


def _switch(run: Mapping[str, Any], key: str, *, default: bool) -> bool:
    value = run.get(key, default)
    if not isinstance(value, bool):
        raise ConfigError(f"{key}: {shown(value)} is not a switch; write true or false")
    return value


def _read_foreign(run: JsonObject) -> ForeignTask:
    installed = [kind for kind in run if is_installed(kind)]
    if len(installed) != 1:
        found = ", ".join(map(shown, list(run)[:10])) or "no keys"
        raise ConfigError(
            f"a task has one of the keys {', '.join(_KINDS)}, or that of an installed executor; here is {found}"
        )
    check_foreign(installed[0], run)
    return ForeignTask(installed[0])
