"""The pods that a node may create: images, namespaces, service accounts, and rights on the machine of the pod.

    pod_images              patterns of images: "registry.example.com/jobs/*"
    pod_namespaces          namespaces
    pod_service_accounts    service accounts; a pod that names none runs as "default"
    pod_allow               rights on the machine, from RIGHTS below; by default none is allowed

The policy checks the pod as the API server would get it, with its template, and at every depth. A definition is checked
when it is declared. The pod is checked again before its creation, with the settings of the node that creates it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from itinerary.errors import ConfigError
from itinerary.model.text import shown
from itinerary.schedules.suggestions import did_you_mean

__all__ = ["RIGHTS", "PodPolicy", "check_rights"]

RIGHTS: Final = (
    "privileged",
    "hostPath",
    "hostPID",
    "hostIPC",
    "hostNetwork",
    "hostPorts",
    "hostProcess",
    "capabilities",
    "procMount",
)
"""The rights that `pod_allow` may name, in the terms of Kubernetes."""
_BY_KEY: Final = {right.lower(): right for right in RIGHTS if right not in ("hostPorts", "capabilities")}
_DEFAULT_ACCOUNT: Final = "default"
_ACCOUNTS: Final = ("serviceaccountname", "serviceaccount")
_NOTHING: Final = (None, False, 0, "", "Default")
"""Values that request no right. `Default` is a value of `procMount`."""


class PodPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a node for its pods. A list that is None allows everything, and an empty list allows nothing."""

    images: tuple[str, ...] | None = None
    namespaces: tuple[str, ...] | None = None
    service_accounts: tuple[str, ...] | None = None
    rights: tuple[str, ...] = ()

    def check(self, spec: Mapping[str, Any], namespace: str | None = None) -> None:
        """Raise ConfigError if a pod with this spec may not be created.

        Args:
            spec: The spec of the pod, as the API server would get it.
            namespace: The namespace of the pod; None if only the node's credentials define it.
        """
        if namespace is not None and self.namespaces is not None and namespace not in self.namespaces:
            raise _not_allowed("namespace", namespace, self.namespaces, "pod_namespaces")
        for account in _accounts(spec):
            if self.service_accounts is not None and account not in self.service_accounts:
                raise _not_allowed("service_account", account, self.service_accounts, "pod_service_accounts")
        for key, value in _entries(spec):
            self._check_image(key, value)
            right = _right(key, value)
            if right is not None and right not in self.rights:
                raise ConfigError(
                    f"pod.template: asks for {right}, a right on the machine that runs the pod; leave it out, or write "
                    f'pod_allow = ["{right}"] in the settings of the nodes'
                )

    def _check_image(self, key: str, value: object) -> None:
        if key != "image" or self.images is None:
            return
        image = value.get("reference") if isinstance(value, Mapping) else value  # a volume may be an image, too
        if not isinstance(image, str) or not any(_matches(image, pattern) for pattern in self.images):
            raise _not_allowed("image", image, self.images, "pod_images")


def check_rights(key: str, given: Collection[str]) -> tuple[str, ...]:
    """Return the rights of `pod_allow`. Raises ConfigError for an unknown right."""
    for right in given:
        if right not in RIGHTS:
            hint = did_you_mean(right, RIGHTS, otherwise=f"there are {', '.join(RIGHTS)}")
            raise ConfigError(f"{key}: {shown(right)} is no right of a pod; {hint}")
    return tuple(given)


def _not_allowed(what: str, value: object, allowed: Collection[str], setting: str) -> ConfigError:
    return ConfigError(
        f"pod.{what}: {shown(value)} is not allowed (allowed: {', '.join(allowed) or 'none'}); "
        f"choose another, or add it to {setting} in the settings of the nodes"
    )


def _matches(image: str, pattern: str) -> bool:
    """True if an image matches a pattern, in which `*` stands for any text."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), image, re.DOTALL) is not None


def _accounts(spec: Mapping[str, Any]) -> list[str]:
    named = [value for key, value in spec.items() if key.lower() in _ACCOUNTS and value]
    return [str(value) for value in named] or [_DEFAULT_ACCOUNT]


def _entries(spec: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield every key of a spec with its value, at every depth.

    Keys are in lower case, as API servers may ignore case.
    """
    waiting: list[object] = [spec]
    while waiting:
        match waiting.pop():
            case Mapping() as table:
                waiting += table.values()
                yield from ((str(key).lower(), value) for key, value in table.items())
            case list() | tuple() as items:
                waiting += items
            case _:
                pass


def _right(key: str, value: object) -> str | None:
    """Return the right that an entry requests, if any."""
    if any(value is one or (type(value) is type(one) and value == one) for one in _NOTHING):
        return None
    match key:
        case "hostport":
            return "hostPorts"
        case "capabilities":
            added = (
                [one for key, one in value.items() if str(key).lower() == "add"] if isinstance(value, Mapping) else [1]
            )
            return "capabilities" if any(added) else None
        case _:
            return _BY_KEY.get(key)
