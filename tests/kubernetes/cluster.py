"""What tests ask of a real cluster, past everything of ours: with kubectl."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

__all__ = ["BUSYBOX", "PATIENCE", "RealCluster", "needs_cluster", "until"]

BUSYBOX: Final = os.environ.get("ITINERARY_TEST_BUSYBOX", "local/busybox:1")
PATIENCE: Final = 120.0
"""Seconds after which something has hung. Nothing is measured by it."""


def until(condition: Callable[[], Any], within: float = PATIENCE) -> Any:
    """Wait for something that happens elsewhere, and tells nobody; what it is, when it is so."""
    ends = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < ends, "it has not happened"
        time.sleep(0.05)
    return found


def needs_cluster() -> None:
    """Skip the module that this is called in, unless there is a cluster. Called by all, they are one line together."""
    if why := _why_not():
        pytest.skip(why, allow_module_level=True)


@functools.cache
def _why_not() -> str | None:
    path = os.environ.get("KUBECONFIG")
    if not path or not Path(path).exists() or shutil.which("kubectl") is None:
        return "no Kubernetes: set KUBECONFIG, and have kubectl; `make kubernetes` brings up a cluster where it can"
    if not RealCluster("default").answers():
        return f"no Kubernetes: the API server that KUBECONFIG={path} names does not answer"
    return None


def kubectl(*arguments: str, given: str | None = None, check: bool = True) -> str:
    """Return what kubectl prints for these arguments, in no namespace of its own."""
    command = ["kubectl", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=300)
    assert not check or done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


class RealCluster:
    """A namespace of a real cluster."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def kubectl(self, *arguments: str, given: str | None = None, check: bool = True) -> str:
        """What it prints."""
        return kubectl("--namespace", self.namespace, *arguments, given=given, check=check)

    def answers(self) -> bool:
        return self.kubectl("get", "--raw", "/healthz", check=False) == "ok"

    def make_namespace(self) -> None:
        self.kubectl("create", "namespace", self.namespace)
        until(lambda: "default" in self.kubectl("get", "serviceaccounts", check=False))

    def remove_namespace(self) -> None:
        """With everything in it: what is still there was left behind by a test that failed."""
        self.kubectl("delete", "deployments,statefulsets", "--all", check=False)
        self.kubectl("delete", "pods", "--all", "--grace-period=1", check=False)
        self.kubectl("delete", "namespace", self.namespace, "--timeout=120s", check=False)

    def pods(self, selector: str = "app.kubernetes.io/managed-by=itinerary") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", "pods", "-o", "json", "-l", selector))["items"]
        return found

    def phases(self) -> list[str]:
        return [pod["status"].get("phase", "") for pod in self.pods()]

    def restart_the_api_server(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Kill the API server and start it again with the same command.

        Only where the API server is a process of this machine, whose pid is in a file. Start it once more if it ends
        by itself, as a supervisor would: the port of a killed server can still be in use for a moment.
        """
        path = Path(os.environ["ITINERARY_TEST_APISERVER_PID"])
        pid = int(path.read_text())
        process = Path(f"/proc/{pid}")
        command = (process / "cmdline").read_text().rstrip("\0").split("\0")
        folder, log = (process / "cwd").resolve(), (process / "fd/1").resolve()
        os.kill(pid, signal.SIGKILL)
        until(lambda: not _is_alive(pid))
        meanwhile()
        detached = ["sh", "-c", 'setsid "$@" >>"$0" 2>&1 </dev/null & echo $!', str(log), *command]

        def answers() -> bool:
            if not _is_alive(int(path.read_text())):
                path.write_text(
                    subprocess.run(detached, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout
                )
            return self.answers()

        try:
            until(answers, within=2 * PATIENCE)
        except AssertionError:
            print("\n".join(log.read_text(errors="replace").splitlines()[-40:]))
            raise


def _is_alive(pid: int) -> bool:
    """True if a process runs: it is neither gone nor a zombie."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
