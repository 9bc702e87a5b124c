"""Peers: other schedulers, each in a process of its own, with its own way of doing the same thing.

`python <script>.py <what> <url> <count>` prints what became of a herd. Each is set up as its documentation advises, and
as generously as it allows. APScheduler 3 comes with the `bench` group of dependencies; each of the others has an
environment of its own in `.peers`, made from its lock file the first time that it is wanted, so that none of them
decides about the versions of anybody else's dependencies.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from bench.herds import Herd
from bench.places import place

__all__ = ["PEERS", "Peer", "peer_herd", "peer_herds", "versions"]

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
TIMEOUT = 900
"""Seconds that a peer may take; most of them go into registering its jobs."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One scheduler, and what it takes part in."""

    title: str
    script: str
    package: str
    herd: tuple[str, ...] = ()
    """The kinds of store on which it has recurring jobs."""
    oneshot: tuple[str, ...] = ()
    """And those on which it has one-shot ones."""
    herd_max: int | None = None
    """How many recurring jobs it is given at most, if more cannot be registered in reasonable time."""

    def takes_part(self, what: str, kind: str) -> bool:
        """Whether it does this, on such a store."""
        return kind in {"herd": self.herd, "oneshot": self.oneshot}[what]

    def count(self, what: str, wanted: int) -> int:
        """How many jobs it is given, if so many are wanted."""
        return wanted if what != "herd" or self.herd_max is None else min(wanted, self.herd_max)


PEERS = (
    Peer("APScheduler 3", "apscheduler3", "apscheduler", herd=("sqlite", "postgres")),
    Peer("APScheduler 4", "apscheduler4", "apscheduler", herd=("sqlite", "postgres"), herd_max=2_000),
    Peer("Huey", "huey", "huey", herd=("sqlite",)),
    Peer("pgqueuer", "pgqueuer", "pgqueuer", herd=("postgres",), oneshot=("postgres",)),
    Peer("Procrastinate", "procrastinate", "procrastinate", oneshot=("postgres",)),
    Peer("DBOS", "dbos", "dbos", herd=("postgres",), oneshot=("postgres",), herd_max=1_000),
)


def peer_herds(what: str, kind: str, count: int) -> dict[str, Herd]:
    """What becomes of a herd in the hands of each peer that takes part, by its title; each on a store of its own."""
    herds = {}
    for peer in PEERS:
        if peer.takes_part(what, kind):
            with place(kind) as url:
                herds[peer.title] = peer_herd(peer, what, url, peer.count(what, count))
    return herds


def peer_herd(peer: Peer, what: str, url: str, count: int) -> Herd:
    """What becomes of a herd in the hands of one."""
    done = subprocess.run(  # noqa: S603 - our own script
        [_interpreter(peer), str(HERE / f"{peer.script}.py"), what, url, str(count)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    if done.returncode:
        raise RuntimeError(f"{peer.title} could not run the {what}:\n{done.stderr[-2_000:]}")
    return Herd.from_json(done.stdout.splitlines()[-1])


def versions() -> dict[str, str]:
    """The version of each peer, by its title."""
    return {peer.title: _version(peer) for peer in PEERS}


def _version(peer: Peer) -> str:
    lock = _lock(peer)
    if not lock.exists():
        return version(peer.package)
    pinned = re.search(rf"^{peer.package}==(\S+)", lock.read_text("utf-8"), re.MULTILINE)
    assert pinned is not None, f"{lock.name} does not pin {peer.package}"
    return pinned[1]


def _lock(peer: Peer) -> Path:
    return HERE / f"{peer.script}.lock"


def _interpreter(peer: Peer) -> str:
    """A Python that has the peer: this one, or one in an environment made from the peer's lock file."""
    lock = _lock(peer)
    if not lock.exists():
        return sys.executable
    environment = ROOT / ".peers" / lock.stem
    python, ready = environment / "bin" / "python", environment / ".ready"
    pinned = sha256(lock.read_bytes()).hexdigest()
    if not ready.exists() or ready.read_text("ascii") != pinned:
        uv = str(Path(sys.executable).parent / "uv")
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(environment)], check=True)  # noqa: S603 - our tools
        subprocess.run(  # noqa: S603 - our tools
            [uv, "pip", "install", "--quiet", "--python", str(python), "--require-hashes", "--requirement", str(lock)],
            check=True,
        )
        ready.write_text(pinned, "ascii")
    return str(python)
