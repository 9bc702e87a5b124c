"""Commands and worker processes of a real node inherit none of its settings and secrets (Q7)."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.e2e.cli.program import Program
from tests.e2e.cli.test_process_one import UNSHARE, first_of, may_unshare

CANARY = "correct-horse-battery-staple"
OPEN_SESAME = "hunter2-of-the-store"
OF_THE_NODE = {
    "ITINERARY_SECRET_API": CANARY,
    "ITINERARY_STORE": "sqlite:///runs.db",
    "ITINERARY_LIMITS": "api=2",
    "PGPASSWORD": OPEN_SESAME,
    "PGHOST": "db.example.com",
    "PLAIN": "from the node",
}
APP = """
import json, os
from itinerary import Itinerary, every

app = Itinerary()
PLACE = "{place}"

def write(name, variables):
    with open(f"{{PLACE}}/{{name}}.json.new", "w") as file:
        json.dump(dict(variables), file)
    os.rename(f"{{PLACE}}/{{name}}.json.new", f"{{PLACE}}/{{name}}.json")

SHOW = "env -0 > shell.new && mv shell.new shell.env"
own = {{"PGPASSWORD": {{"secret": "API"}}, "ITINERARY_OWN": "mine"}}
app.job("plain", every("1s")).shell("main", SHOW, use_shell=True, cwd=PLACE)
app.job("named", every("1s")).shell("main", SHOW.replace("shell", "named"), use_shell=True, cwd=PLACE, env=own)

@app.job(every("1s"), executor="process", limits=["api"])
def worker():
    write("worker", os.environ)
"""


def variables_in(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text("utf-8").split("\0") if line)


@pytest.mark.spec("Q7", "nothing of the node is inherited")
def test_commands_and_workers_of_a_node_inherit_no_setting_and_no_secret_of_it(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP.format(place=tmp_path), "utf-8")
    with Program(tmp_path, "up", "app.py", env=OF_THE_NODE) as program:
        seen: set[str] = set()
        while seen < {"plain", "named", "worker"}:
            line = program.until(lambda line: "completed" in line or "failed" in line)
            assert "failed" not in line, program.errors
            seen.add(line.split()[1])
        program.signal(signal.SIGTERM)
        assert program.end() == 0

    worker: dict[str, str] = json.loads((tmp_path / "worker.json").read_text("utf-8"))
    for found in (variables_in(tmp_path / "shell.env"), worker):
        assert [name for name in found if name.startswith(("ITINERARY_", "PG"))] == []
        assert not {CANARY, OPEN_SESAME} & set(found.values())
        assert found["PLAIN"] == "from the node"
    named = variables_in(tmp_path / "named.env")
    assert (named["PGPASSWORD"], named["ITINERARY_OWN"]) == (CANARY, "mine")
    assert "PGHOST" not in named


@pytest.mark.skipif(not may_unshare(), reason="needs unshare(1), and the permission to make a process namespace")
def test_process_1_of_a_container_keeps_no_secret_of_its_node(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP.format(place=tmp_path), "utf-8")
    with Program(tmp_path, "up", "app.py", within=UNSHARE, env=OF_THE_NODE) as program:
        program.until(lambda line: "Ctrl-C" in line)
        first = Path(f"/proc/{first_of(program)}")
        assert b"init_process" in (first / "cmdline").read_bytes()
        assert CANARY.encode() not in (first / "environ").read_bytes()
