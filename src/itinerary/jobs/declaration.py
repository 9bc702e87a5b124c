"""Declared jobs with their tasks, checked line by line as a program declares them.

    app.job("etl", every("15m"), …)      a Declaration: name, schedule, overrides
    @etl.task, etl.shell(…), …           its tasks, in this order
    @etl.on_start, etl.requires(…)       its hooks and its conditions

Each line is checked as far as possible when it runs, so that the traceback of an error contains that line. The checks
cover overrides and their level, the schedule and its completeness, the definition of a task, and function signatures.

A declaration becomes a `Definition` when a node starts. A definition is JSON and contains functions by name. Values
that are known only at the start are filled in then, such as the anchor of a bare duration (S4).

The program's defaults for all jobs (`[defaults]`, the time zone at the top) go into the definition of each job that
does not set them itself. From then on the store has them, and nodes do not use their own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any, Final, Protocol

from itinerary.errors import ConfigError, ScheduleError
from itinerary.executors import Registry, read_task
from itinerary.executors.async_iteration import ITERATED
from itinerary.executors.definitions import FUNCTION_EXECUTORS, TASK_KEYS
from itinerary.executors.pods.definition import in_order
from itinerary.executors.task_policy import TaskPolicy
from itinerary.jobs.function_names import described, is_shared, stored_name, title_of
from itinerary.model.codec import to_json
from itinerary.model.config import EffectiveConfig, check_timeouts, resolve
from itinerary.model.definition import Definition, Requirement
from itinerary.model.ids import job_id, task_id
from itinerary.model.overrides import NOTHING, OverrideLevel, Overrides, left_unset, read_overrides
from itinerary.model.task import Task
from itinerary.model.text import shown
from itinerary.schedules import Binding, Schedule, ZoneData, packaged_zone_data

__all__ = ["DEFINITION_MAX", "Declaration", "DeclarationContext", "Declared", "pod_of"]

DEFINITION_MAX: Final = 256 * 1024
"""The longest definition, in bytes of JSON (Q4)."""
TASKS_MAX: Final = 1_000
_ITERATED_TASK: Final = "loop"


class DeclarationContext:
    """The context of declaration checks: the function registry, the settings of all jobs, and the zone data.

    A zone is entered from the zone data when a job needs it for the first time.
    """

    def __init__(
        self,
        registry: Registry,
        defaults: Overrides,
        shares: Mapping[str, int],
        zone_data: ZoneData | None = None,
        env: Mapping[str, object] | None = None,
        policy: TaskPolicy | None = None,
    ) -> None:
        """Create the rules.

        Args:
            registry: The registry of functions.
            defaults: The defaults of all jobs.
            shares: The number of shares of each limit.
            zone_data: The zone data; None: the packaged data.
            env: Variables of every command.
            policy: The restrictions of tasks.
        """
        self.policy = TaskPolicy() if policy is None else policy
        self.env = {} if env is None else dict(env)
        self.registry, self.defaults, self.shares = registry, defaults, shares
        self.zone_data = packaged_zone_data() if zone_data is None else zone_data
        self._names: dict[int, tuple[Callable[..., Any], str]] = {}

    def named(self, function: Callable[..., Any], where: str) -> str:
        """Register a function and return its stored name. A shared function is inspected only once.

        `where` is the place of the declaration: `job/task`.
        """
        if not is_shared(function):
            return self.registry.register(function, stored_name(function, where))
        known = self._names.get(id(function))
        if known is None:
            name = self.registry.register(function, stored_name(function, where))
            known = self._names[id(function)] = function, name  # the reference keeps the id from being reused
        return known[1]


class Declared(Protocol):
    """The part of a declaration that a store needs."""

    @property
    def name(self) -> str:
        """The name of the job."""

    def zone_names(self) -> frozenset[str]:
        """Return the zones that the job needs."""

    def body(self, registered_at: int) -> str:
        """Return the JSON that a store keeps; `registered_at` is in seconds."""


class Declaration:
    """A job that the program is declaring."""

    def __init__(
        self, rules: DeclarationContext, name: str, schedule: Schedule, overrides: Mapping[str, object]
    ) -> None:
        self._rules, self.name, self._id = rules, name, job_id(name)
        if not isinstance(schedule, Schedule):
            raise ConfigError(
                f"job {name!r}: {shown(schedule)} is not a schedule; give cron(…), every(…), once(…) or another one"
            )
        self.schedule = schedule
        self.overrides = self._read(overrides, OverrideLevel.JOB)
        config = self._config_under(rules.defaults)
        self.defaults, self.timezone = rules.defaults, config.timezone
        for limit in self.overrides.limits or ():
            if limit not in rules.shares:
                raise ConfigError(
                    f"job {name!r}: limits: nobody says how many shares {limit!r} has; set limits = {{{limit} = 5}}"
                )
        self._tasks: list[Task] = []
        self._requires: list[Requirement] = []
        self._on_start: list[str] = []
        self._on_complete: list[str] = []
        self.bound(registered_at=0).require_ready()

    @property
    def has_tasks(self) -> bool:
        """True if the job has tasks; else an `async for` loop handles its runs."""
        return bool(self._tasks)

    @property
    def has_pods(self) -> bool:
        """True if a task runs in a pod."""
        return any(task.outlives_its_node for task in self._tasks)

    @property
    def functions(self) -> Iterator[str]:
        """The names of its functions: of tasks, conditions, actions and hooks."""
        for task in self._tasks:
            executor = resolve(settings=self.defaults, job=self.overrides, task=task.overrides).executor
            if "python" in task.definition and executor in (*FUNCTION_EXECUTORS, "pod"):
                yield str(task.definition["python"])
        for requirement in self._requires:
            yield from (name for name in (requirement.python, requirement.action) if name is not None)
        yield from (*self._on_start, *self._on_complete)

    def under(self, defaults: Overrides) -> Declaration:
        """Return the same declaration under other defaults. Raises ConfigError if the two contradict each other."""
        config = self._config_under(defaults)
        for task in self._tasks:
            where = f"job {self.name!r}, task {task.name!r}"
            self._check_timeouts(resolve(settings=defaults, job=self.overrides, task=task.overrides), where)
        other = copy(self)
        other.defaults, other.timezone = defaults, config.timezone
        return other

    def _config_under(self, defaults: Overrides) -> EffectiveConfig:
        config = resolve(settings=defaults, job=self.overrides)
        self._check_timeouts(config, f"job {self.name!r}")
        return config

    # -- parts -------------------------------------------------------------------------------------------------------

    def add_function(
        self,
        function: Callable[..., Any],
        overrides: Mapping[str, object],
        name: str | None,
        pod: Mapping[str, object] | None = None,
    ) -> None:
        """Add a task that calls a function, in a pod if `pod` is given."""
        title = title_of(function) if name is None else name
        if title is None:
            raise ConfigError(
                f"job {self.name!r}: {described(function)} has no name that its task could have; give one: "
                'task(function, name="load")'
            )
        definition: dict[str, object] = {"python": self._rules.named(function, f"{self.name}/{title}")}
        if pod is not None:
            definition["pod"] = dict(pod)
        self.add_task(title, definition, overrides)

    def add_task(self, name: str, definition: Mapping[str, object], overrides: Mapping[str, object]) -> None:
        """Add a task at the end."""
        if any(task.name == name for task in self._tasks):
            raise ConfigError(f"job {self.name!r} has a task {name!r} already; give this one another name")
        if len(self._tasks) == TASKS_MAX:
            raise ConfigError(f"job {self.name!r} has {TASKS_MAX} tasks, and more are not allowed; make it two jobs")
        where = f"job {self.name!r}, task {name!r}"
        definition = self._with_env(definition)
        read = self._read(overrides, OverrideLevel.TASK, where)
        effective = resolve(settings=self.defaults, job=self.overrides, task=read)
        self._check_timeouts(effective, where)
        try:
            self._rules.policy.check(read_task(definition, effective.executor, self._rules.registry))
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error
        self._tasks.append(
            Task(
                id=task_id(self._id, name),
                name=name,
                order=len(self._tasks),
                definition=dict(definition),
                overrides=read,
            )
        )

    def _with_env(self, definition: Mapping[str, object]) -> Mapping[str, object]:
        """Return a command with the variables of all commands. The command's own variables have precedence."""
        own = definition.get("env", {})
        if not self._rules.env or "shell" not in definition or not isinstance(own, Mapping):
            return definition
        merged = {**definition, "env": {**self._rules.env, **own}}
        return {key: merged[key] for key in (*TASK_KEYS["shell"], *merged) if key in merged}

    def add_requirement(self, given: Mapping[str, object]) -> None:
        """Add a condition that must hold before an occurrence runs. Functions in it are replaced by their names."""
        values: dict[str, Any] = {
            key: self._rules.named(value, f"{self.name}/requires.{len(self._requires) + 1}.{key}")
            if callable(value)
            else value
            for key, value in given.items()
        }
        try:
            requirement = Requirement(**{key: value for key, value in values.items() if value is not None})
            for name in (requirement.python, requirement.action):
                if name is not None:
                    read_task({"python": name}, "auto", self._rules.registry)
            if requirement.http is not None:
                read_task({"http": requirement.http})
        except (ConfigError, TypeError) as error:
            raise ConfigError(f"job {self.name!r}: {error}") from error
        self._requires.append(requirement)

    def add_hook(self, function: Callable[..., Any] | str, *, is_start: bool) -> None:
        """Add a start hook or a completion hook: a function, or the name of one."""
        hooks = self._on_start if is_start else self._on_complete
        if isinstance(function, str):
            hooks.append(self._rules.registry.check(function))
            return
        _check_takes_one(self.name, function)
        kind = "on_start" if is_start else "on_complete"
        hooks.append(self._rules.named(function, f"{self.name}/{kind}.{len(hooks) + 1}"))

    @staticmethod
    def _check_timeouts(config: EffectiveConfig, where: str) -> None:
        try:
            check_timeouts(config)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error

    def _read(self, overrides: Mapping[str, object], level: OverrideLevel, where: str | None = None) -> Overrides:
        if not overrides:
            return NOTHING
        try:
            return read_overrides(overrides, level)
        except ConfigError as error:
            raise ConfigError(f"{where or f'job {self.name!r}'}: {error}") from error

    # -- the complete definition -------------------------------------------------------------------------------------

    def bound(self, registered_at: int) -> Schedule:
        """Return the schedule with all values filled in; `registered_at` is in seconds."""
        try:
            return self.schedule.bind(Binding(self.name, self.timezone, registered_at))
        except ScheduleError as error:
            raise ScheduleError(f"job {self.name!r}: {error}") from error

    def zone_names(self) -> frozenset[str]:
        """Return the zones that the job needs."""
        return self.schedule.zone_names(self.timezone)

    def definition(self, registered_at: int) -> Definition:
        """Return the definition to store."""
        tasks = tuple(self._tasks)
        if not tasks:
            run = {"python": ITERATED}
            tasks = (Task(id=task_id(self._id, _ITERATED_TASK), name=_ITERATED_TASK, order=0, definition=run),)
        return Definition(
            schedule=self.bound(registered_at).to_json(),
            overrides=self.overrides,
            tasks=tasks,
            requires=tuple(self._requires),
            on_start=tuple(self._on_start),
            on_complete=tuple(self._on_complete),
            defaults=left_unset(self.defaults, self.overrides),
        )

    def body(self, registered_at: int) -> str:
        """Return the definition as the JSON that a store keeps."""
        encoded = to_json(self.definition(registered_at))
        if len(encoded) > DEFINITION_MAX:
            raise ConfigError(
                f"job {self.name!r}: its definition is {len(encoded)} bytes of JSON, {DEFINITION_MAX} are allowed"
            )
        return encoded.decode()


def pod_of(image: str | None, more: Mapping[str, Any] | None) -> dict[str, object] | None:
    """Return the pod options of a function; None if it runs in no pod."""
    if image is None and more is None:
        return None
    return in_order({**({} if image is None else {"image": image}), **(more or {})})


def _check_takes_one(job: str, function: Callable[..., Any]) -> None:
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        name = getattr(function, "__qualname__", repr(function))
        raise ConfigError(
            f"job {job!r}: {name} is told of a start or an end, so it takes one argument, the occurrence or the report"
        ) from error
    except ValueError:
        return  # the registry refuses a function without a readable signature
