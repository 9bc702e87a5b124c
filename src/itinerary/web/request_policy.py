"""The rule for definitions in HTTP requests: which tasks may be new, and which must already be stored (Q3).

    may be new        a registered function · an HTTP call without a secret · a condition on a job or an HTTP response,
                      or by a registered function
    must be stored    everything else: a command, a pod, a task of another executor, an unregistered function, a call
                      with a secret, a condition on a file or a statement

A request may send such a task back as it is stored, under the same name in the same job. So a job keeps its command
while its schedule changes, and a token alone gives no access to a shell, a pod or a secret.

The decision depends on what would run: the task as the executors read it, with its effective executor. The keys of a
task decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

import msgspec

from itinerary.errors import ConfigError
from itinerary.executors.definitions import (
    BUILT_IN,
    ForeignTask,
    HttpCall,
    PodTask,
    PythonCall,
    ShellCommand,
    TaskDefinition,
    read_task,
)
from itinerary.executors.registry import Registry
from itinerary.executors.secrets import Secret
from itinerary.jobs.declaration import DeclarationContext
from itinerary.model.definition import Definition, Requirement
from itinerary.model.task import Task
from itinerary.web.problems import RequestRefused

__all__ = ["check_definition"]


def check_definition(job: str, wanted: Definition, stored: Definition | None, rules: DeclarationContext) -> None:
    """Reject a definition with a task that a request may not contain.

    Args:
        job: The name of the job.
        wanted: The definition in the request.
        stored: The stored definition of the same job; None if there is none, or the job was removed.
        rules: The functions that this node knows, and its policy.

    Raises:
        Refused: A part of the definition is new, and may not come from a request.
        ConfigError: The policy of this node rejects a task.
    """
    for what in _not_allowed(wanted, stored, rules):
        raise RequestRefused(
            403,
            "Not from a request",
            f"job {job!r}, {what} may not come from a request, unless the store has the same for it already; "
            "apply the file with `itinerary apply`, where the store can be reached",
        )


def _not_allowed(wanted: Definition, stored: Definition | None, rules: DeclarationContext) -> Iterator[str]:
    """Yield the parts of a definition that are new and may not be."""
    registry = rules.registry
    for task in wanted.tasks:
        executor = wanted.config(task=task.overrides).executor
        known = _executor_in(stored, task)
        try:
            runs = read_task(task.definition, executor, registry)
        except ConfigError:
            if known == executor:
                continue  # the code is on other nodes, and the store has this task unchanged
            raise
        rules.policy.check(runs)
        why = _why_not(runs, registry)
        if why is not None and known != executor and not {known, executor} <= {*BUILT_IN}:
            yield f"task {task.name!r}: {why}"
    for requirement in wanted.requires:
        why = _why_not_required(requirement, registry)
        if why is not None and (stored is None or requirement not in stored.requires):
            yield f"requires: {why}"
    for kind in ("on_start", "on_complete"):
        for name in getattr(wanted, kind):
            if not registry.is_registered(name) and (stored is None or name not in getattr(stored, kind)):
                yield f"{kind}: {_unregistered(name)}"


def _why_not(runs: TaskDefinition, registry: Registry) -> str | None:
    """Describe a task that a request may not contain; None if it may."""
    match runs:
        case PythonCall(name):
            return None if registry.is_registered(name) else _unregistered(name)
        case HttpCall():
            has_secret = any(isinstance(value, Secret) for value in runs.headers.values())
            return "a call with a secret" if has_secret else None
        case ShellCommand():
            return "a command (shell)"
        case PodTask():
            return "a pod"
        case ForeignTask(executor):
            return f"a task of executor {executor!r}"
        case _:
            assert_never(runs)


def _why_not_required(requirement: Requirement, registry: Registry) -> str | None:
    if requirement.sql is not None:
        return "a statement (sql)"
    if requirement.file is not None:
        return "a file of the node"
    for name in (requirement.python, requirement.action):
        if name is not None and not registry.is_registered(name):
            return _unregistered(name)
    return None


def _unregistered(name: str) -> str:
    return f"the function {name}, which is not registered on this node,"


def _executor_in(stored: Definition | None, task: Task) -> str | None:
    """Return the effective executor of the same task in the store; None if the store does not have it."""
    for other in () if stored is None else stored.tasks:
        if stored is not None and other.name == task.name and _text(other) == _text(task):
            return stored.config(task=other.overrides).executor
    return None


def _text(task: Task) -> bytes:
    """Return the definition as one text: unlike a comparison of values, it distinguishes 1 from true."""
    return msgspec.json.encode(task.definition, order="deterministic")
