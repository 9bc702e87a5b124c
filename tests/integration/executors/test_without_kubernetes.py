"""Without kubernetes-asyncio, an extra: everything else works, and a pod is an error that says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HIDE = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "kubernetes_asyncio":
            raise ModuleNotFoundError(name)

def find_spec(name, package=None, found=__import__("importlib.util").util.find_spec):
    return None if name == "kubernetes_asyncio" else found(name, package)

import importlib.util
importlib.util.find_spec = find_spec
sys.meta_path.insert(0, Hidden())
"""
APP = """
import asyncio
from itinerary import Itinerary, once
app = Itinerary(store="memory:")
job = app.job("train", once("2190-01-01T00:00:00Z"))
{task}

async def main():
    async with app.running():
        print("it runs")

asyncio.run(main())
"""


def ran(tmp_path: Path, task: str) -> str:
    (tmp_path / "program.py").write_text(HIDE + APP.format(task=task))
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    return done.stdout + done.stderr


@pytest.mark.spec("K1", "optional")
def test_a_node_with_a_pod_does_not_start_and_says_what_to_install(tmp_path: Path) -> None:
    told = ran(tmp_path, 'job.pod("fit", image="local/train:1")')
    assert "ConfigError: a task is a pod, and kubernetes-asyncio" in told
    assert "install itinerary-scheduler[kubernetes]" in told


@pytest.mark.spec("K1", "optional")
def test_a_node_without_pods_runs(tmp_path: Path) -> None:
    assert "it runs" in ran(tmp_path, 'job.shell("fit", ["true"])')
