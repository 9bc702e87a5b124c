"""The definition of a pod task: `{"pod": {"image": "local/train:1", "command": ["train"], "namespace": "jobs"}}`.

    a pod            {"pod": {…}}                             runs its command
    a function       {"python": "…", "pod": {…}}              with `executor = "pod"`: the image contains the code (K6)

Secrets and config maps are named, never copied: `env = {TOKEN = {secret = "api", key = "token"}}`. `template` takes all
other features of Kubernetes: metadata and spec of a pod, in the format of Kubernetes. The other keys override it.
Unknown keys are errors (Q7). The API server checks the keys of the template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final, Literal

import msgspec

from itinerary.errors import ConfigError, DurationError
from itinerary.model.task import JsonObject
from itinerary.model.text import shown
from itinerary.model.validators import check_keys
from itinerary.schedules.durations import parse_duration

__all__ = [
    "MAIN",
    "OURS",
    "POD_KEYS",
    "PodTask",
    "Reference",
    "VariableSource",
    "in_order",
    "read_pod",
    "require_library",
]

MAIN: Final = "main"
"""The name of the container that does the work. A template may add settings to it, and other containers."""
OURS: Final = "itinerary/"
"""The prefix of Itinerary's own labels and annotations."""

POD_KEYS: Final = (
    "image",
    "command",
    "args",
    "env",
    "env_from",
    "cwd",
    "resources",
    "namespace",
    "service_account",
    "labels",
    "annotations",
    "pull_policy",
    "start_timeout",
    "template",
)
_LABEL_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_LABEL_KEY: Final = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_DATA_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}", re.ASCII)
_VARIABLE: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*", re.ASCII)
_QUANTITY: Final = re.compile(r"[+]?(\d+(\.\d*)?|\.\d+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?", re.ASCII)
_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_ENTRIES_MAX: Final = 1_000
_TEXT_MAX: Final = 100_000
_START_TIMEOUT: Final = "1m"


class Reference(msgspec.Struct, frozen=True):
    """A value of a secret or a config map."""

    kind: Literal["secret", "config_map"]
    name: str
    key: str


class VariableSource(msgspec.Struct, frozen=True):
    """The values of a secret or a config map, as variables."""

    kind: Literal["secret", "config_map"]
    name: str
    prefix: str


class PodTask(msgspec.Struct, frozen=True, kw_only=True):
    """A pod, as its task defines it."""

    image: str
    command: tuple[str, ...] | None
    args: tuple[str, ...] | None
    env: Mapping[str, str | Reference]
    env_from: tuple[VariableSource, ...]
    cwd: str | None
    resources: Mapping[str, Mapping[str, str]]
    namespace: str | None
    """The namespace; None for the namespace of the node's credentials."""
    service_account: str | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pull_policy: str | None
    start_timeout: int
    """The time for which the pod may be unschedulable, or lack a referenced object, before it fails; in
    microseconds."""
    template: JsonObject


def read_pod(given: object) -> PodTask:
    """Read the definition of a pod. Raises ConfigError, which begins with the key."""
    pod = check_keys("pod", given, POD_KEYS, "pod.")
    image = pod.get("image")
    if not isinstance(image, str) or not image or len(image) > 1_000 or re.search(r"\s", image):
        example = 'write pod = { image = "registry/name:tag" }'
        raise ConfigError(f"pod.image: {'is missing' if image is None else f'{shown(image)} is no image'}; {example}")
    return PodTask(
        image=image,
        command=_arguments(pod, "command"),
        args=_arguments(pod, "args"),
        env=_table(pod, "env", _variable, _env_value),
        env_from=tuple(_source(f"pod.env_from.{place}", one) for place, one in enumerate(_list(pod, "env_from"))),
        cwd=_text(pod, "cwd"),
        resources=_resources(pod.get("resources", {})),
        namespace=_matching(pod, "namespace", _LABEL_NAME),
        service_account=_matching(pod, "service_account", _NAME),
        labels=_table(pod, "labels", _own_key, _label_value),
        annotations=_table(pod, "annotations", _own_key, _annotation),
        pull_policy=_one_of(pod, "pull_policy", _POLICIES),
        start_timeout=_duration(pod, "start_timeout"),
        template=_template(pod.get("template", {})),
    )


def require_library() -> None:
    """Raise ConfigError if the library for pods is not installed."""
    if find_spec("kubernetes_asyncio") is None:
        raise ConfigError(
            "a task is a pod, and kubernetes-asyncio, which runs pods, is not installed; "
            "install itinerary-scheduler[kubernetes]"
        )


def in_order(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition with its keys in a fixed order, so that equal tasks have equal text."""
    return {**{key: pod[key] for key in POD_KEYS if key in pod}, **pod}


# -- values ----------------------------------------------------------------------------------------------------------


def _text(pod: Mapping[str, Any], key: str) -> str | None:
    return None if pod.get(key) is None else _argument(f"pod.{key}", pod[key])


def _argument(key: str, given: object) -> str:
    if not isinstance(given, str) or "\0" in given or len(given) > _TEXT_MAX:
        raise ConfigError(f"{key}: {shown(given)} is not text without a NUL, of at most {_TEXT_MAX} characters")
    return given


def _list(pod: Mapping[str, Any], key: str) -> Sequence[object]:
    given = pod.get(key, ())
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigError(f"pod.{key}: {shown(given)} is not a list")
    if len(given) > _ENTRIES_MAX:
        raise ConfigError(f"pod.{key}: {len(given)} are too many; {_ENTRIES_MAX} are allowed")
    return given


def _arguments(pod: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    if pod.get(key) is None:
        return None
    if isinstance(pod[key], str):
        raise ConfigError(f'pod.{key}: text would have to go through a shell; write a list such as ["train", "-v"]')
    return tuple(_argument(f"pod.{key}.{place}", one) for place, one in enumerate(_list(pod, key)))


def _matching(pod: Mapping[str, Any], key: str, pattern: re.Pattern[str]) -> str | None:
    return None if pod.get(key) is None else _name(f"pod.{key}", pod[key], pattern)


def _name(key: str, given: object, pattern: re.Pattern[str] = _NAME) -> str:
    if not isinstance(given, str) or not pattern.fullmatch(given):
        raise ConfigError(f"{key}: {shown(given)} is not a name that Kubernetes takes; write a-z, 0-9 and '-'")
    return given


def _one_of(pod: Mapping[str, Any], key: str, allowed: tuple[str, ...]) -> str | None:
    given = pod.get(key)
    if given is not None and given not in allowed:
        raise ConfigError(f"pod.{key}: {shown(given)} is unknown; allowed: {', '.join(allowed)}")
    return given


def _duration(pod: Mapping[str, Any], key: str) -> int:
    try:
        return parse_duration(pod.get(key, _START_TIMEOUT))
    except DurationError as error:
        raise ConfigError(f"pod.{key}: {error}") from error


# -- tables ----------------------------------------------------------------------------------------------------------


def _table(
    pod: Mapping[str, Any], key: str, check: Callable[[str, object], None], value: Callable[[str, object], Any]
) -> dict[str, Any]:
    given = pod.get(key, {})
    if not isinstance(given, Mapping):
        raise ConfigError(f"pod.{key}: {shown(given)} is not a table")
    if len(given) > _ENTRIES_MAX:
        raise ConfigError(f"pod.{key}: {len(given)} are too many; {_ENTRIES_MAX} are allowed")
    for name in given:
        check(f"pod.{key}", name)
    return {name: value(f"pod.{key}.{name}", one) for name, one in given.items()}


def _variable(key: str, name: object) -> None:
    if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
        raise ConfigError(f"{key}: {shown(name)} is not the name of a variable")
    if name.startswith("ITINERARY_POD_"):
        raise ConfigError(f"{key}: {name}: is set by Itinerary itself; leave it out")


def _own_key(key: str, name: object) -> None:
    if not isinstance(name, str) or not _LABEL_KEY.fullmatch(name):
        raise ConfigError(f"{key}: {shown(name)} is not a key that Kubernetes takes; write name, or domain/name")
    if name.startswith(OURS):
        raise ConfigError(f"{key}.{name}: what begins with {OURS} is set by Itinerary itself; leave it out")


def _label_value(key: str, given: object) -> str:
    if not isinstance(given, str) or not _LABEL_VALUE.fullmatch(given):
        raise ConfigError(f"{key}: {shown(given)} is not a label; at most 63 letters, digits, '-', '_' and '.'")
    return given


def _annotation(key: str, given: object) -> str:
    return _argument(key, given)


def _env_value(key: str, given: object) -> str | Reference:
    match given:
        case str():
            return _argument(key, given)
        case {"secret": name, "key": of, **rest} if not rest:
            return Reference("secret", _name(f"{key}.secret", name), _data_key(f"{key}.key", of))
        case {"config_map": name, "key": of, **rest} if not rest:
            return Reference("config_map", _name(f"{key}.config_map", name), _data_key(f"{key}.key", of))
        case _:
            examples = '{"secret": "NAME", "key": "KEY"} or {"config_map": "NAME", "key": "KEY"}'
            raise ConfigError(f"{key}: {shown(given)} is neither text nor a reference such as {examples}")


def _data_key(key: str, given: object) -> str:
    if not isinstance(given, str) or not _DATA_KEY.fullmatch(given):
        raise ConfigError(f"{key}: {shown(given)} is not a key of a secret or a config map")
    return given


def _source(key: str, given: object) -> VariableSource:
    table = check_keys(key, given, ("secret", "config_map", "prefix"), f"{key}.")
    kinds = [kind for kind in ("secret", "config_map") if kind in table]
    prefix = table.get("prefix", "")
    if len(kinds) != 1:
        raise ConfigError(f"{key}: names a secret or a config map, and one of them")
    if not isinstance(prefix, str) or (prefix and not _VARIABLE.fullmatch(prefix)):
        raise ConfigError(f"{key}.prefix: {shown(prefix)} is not the beginning of a variable's name")
    kind: Literal["secret", "config_map"] = "secret" if kinds == ["secret"] else "config_map"
    return VariableSource(kind, _name(f"{key}.{kind}", table[kind]), prefix)


def _resources(given: object) -> dict[str, dict[str, str]]:
    table = check_keys("pod.resources", given, ("requests", "limits"), "pod.resources.")
    found = {}
    for kind, amounts in table.items():
        if not isinstance(amounts, Mapping):
            raise ConfigError(f'pod.resources.{kind}: {shown(amounts)} is not a table; write {{ memory = "64Mi" }}')
        found[kind] = {name: _quantity(f"pod.resources.{kind}", name, amount) for name, amount in amounts.items()}
    return found


def _quantity(key: str, name: object, given: object) -> str:
    if not isinstance(name, str) or not _LABEL_KEY.fullmatch(name):
        raise ConfigError(f"{key}: {shown(name)} is not a resource; write cpu, memory or domain/name")
    text = str(given) if isinstance(given, int | float) and not isinstance(given, bool) else given
    if not isinstance(text, str) or not _QUANTITY.fullmatch(text):
        raise ConfigError(f'{key}.{name}: {shown(given)} is not an amount; write "500m", 2 or "64Mi"')
    return text


# -- the template ----------------------------------------------------------------------------------------------------


def _template(given: object) -> JsonObject:
    template = check_keys("pod.template", given, ("metadata", "spec"), "pod.template.")
    prefix = "pod.template.metadata"
    metadata = check_keys(prefix, template.get("metadata", {}), ("labels", "annotations"), f"{prefix}.")
    for key in metadata:
        _table({key: metadata[key]}, key, _own_key, _label_value if key == "labels" else _annotation)
    spec = template.get("spec", {})
    if not isinstance(spec, Mapping):
        raise ConfigError(f"pod.template.spec: {shown(spec)} is not a table")
    if spec.get("restartPolicy", "Never") != "Never":
        raise ConfigError(
            "pod.template.spec.restartPolicy: is Never, and nothing else: an attempt is one run, and trying again is "
            "what `retry` says"
        )
    containers = spec.get("containers", [])
    if not isinstance(containers, list) or not all(isinstance(one, Mapping) and one.get("name") for one in containers):
        raise ConfigError(f"pod.template.spec.containers: is a list of tables with names; {MAIN!r} does the work")
    try:
        msgspec.json.encode(template)
    except (TypeError, ValueError, RecursionError):
        raise ConfigError("pod.template: has something in it that JSON does not have") from None
    return template
