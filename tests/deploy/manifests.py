"""The manifests in `deploy/kubernetes/base`, read as YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]  # the library has no types

__all__ = ["BASE", "NODES", "TASKS", "Manifest", "manifests", "one", "pod_specs", "violations"]

BASE: Final = Path(__file__).parents[2] / "deploy/kubernetes/base"
NODES: Final = "itinerary"
TASKS: Final = "itinerary-tasks"

Manifest = dict[str, Any]


def manifests() -> list[Manifest]:
    """Read every object that the kustomizations list."""
    found: list[Manifest] = []
    for folder in ("nodes", "tasks"):
        listed = yaml.safe_load((BASE / folder / "kustomization.yaml").read_text("utf-8"))["resources"]
        for name in listed:
            found += yaml.safe_load_all((BASE / folder / name).read_text("utf-8"))
    return found


def one(kind: str, name: str, namespace: str | None = None) -> Manifest:
    """Return the object of this kind and name."""
    (found,) = (
        manifest
        for manifest in manifests()
        if manifest["kind"] == kind
        and manifest["metadata"]["name"] == name
        and namespace in (None, manifest["metadata"].get("namespace"))
    )
    return found


def pod_specs() -> dict[str, Manifest]:
    """Return the specs of all pods that the manifests make, by the names of their owners."""
    return {
        manifest["metadata"]["name"]: manifest["spec"]["template"]["spec"]
        for manifest in manifests()
        if manifest["kind"] in ("Deployment", "StatefulSet")
    }


def violations(spec: Manifest) -> list[str]:
    """Return what the Pod Security Standard `restricted` forbids in this pod.

    The rules are those of Kubernetes 1.32, for Linux: https://kubernetes.io/docs/concepts/security/pod-security-standards/
    """
    pod = spec.get("securityContext", {})
    found = [key for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    allowed = {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
    found += [f"volume {one['name']}" for one in spec.get("volumes", ()) if not set(one) - {"name"} <= allowed]
    found += [key for key in ("sysctls", "seLinuxOptions", "appArmorProfile") if key in pod]
    for container in [*spec["containers"], *spec.get("initContainers", ())]:
        own = container.get("securityContext", {})
        both = {**pod, **own}
        checks = {
            "privileged": not own.get("privileged"),
            "procMount": own.get("procMount", "Default") == "Default",
            "hostPort": not any(port.get("hostPort") for port in container.get("ports", ())),
            "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
            "runAsNonRoot": both.get("runAsNonRoot") is True,
            "runAsUser": both.get("runAsUser") != 0,
            "seccompProfile": both.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"),
            "capabilities.drop": "ALL" in own.get("capabilities", {}).get("drop", ()),
            "capabilities.add": set(own.get("capabilities", {}).get("add", ())) <= {"NET_BIND_SERVICE"},
        }
        found += [f"{container['name']}: {name}" for name, holds in checks.items() if not holds]
    return found
