"""Peers: other schedulers, each in a process of its own, with its own way of doing the same thing.

APScheduler 3 comes with the `bench` group of dependencies. Version 4 cannot be installed beside it, so it has an
environment of its own in `.peers`, made from a lock file the first time that it is wanted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.herds import Herd

__all__ = ["PEERS", "peer_herd"]

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
TIMEOUT = 3_600
"""Seconds that a peer may take; most of them go into registering its jobs."""
PEERS = ("APScheduler 3", "APScheduler 4")
_SCRIPTS = {"APScheduler 3": "apscheduler3", "APScheduler 4": "apscheduler4"}


def peer_herd(peer: str, url: str, count: int) -> Herd:
    """What becomes of a herd that a peer has in its hands, on a store of the same kind."""
    script = _SCRIPTS[peer]
    python = _interpreter(script)
    done = subprocess.run(  # noqa: S603 - our own script
        [python, str(HERE / f"{script}.py"), url, str(count)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    if done.returncode:
        raise RuntimeError(f"{peer} could not run the herd:\n{done.stderr[-2_000:]}")
    return Herd.from_json(done.stdout.splitlines()[-1])


def _interpreter(script: str) -> str:
    """A Python that has the peer: this one, or one in an environment made from the peer's lock file."""
    lock = HERE / f"{script}.lock"
    if not lock.exists():
        return sys.executable
    environment = ROOT / ".peers" / script
    python = environment / "bin" / "python"
    if not (environment / ".ready").exists():
        uv = str(Path(sys.executable).parent / "uv")
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(environment)], check=True)  # noqa: S603 - our tools
        subprocess.run(  # noqa: S603 - our tools
            [uv, "pip", "install", "--quiet", "--python", str(python), "--require-hashes", "--requirement", str(lock)],
            check=True,
        )
        (environment / ".ready").touch()
    return str(python)
