"""A real node and other users of its machine: its memory, its store, and the user that its commands run as (Q7)."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.cli.program import PATIENCE, Program
from tests.other_users import AS_NOBODY, NOBODY, needs_root, needs_setpriv, public_directory

CANARY = "correct-horse-battery-staple"
STORE = "sqlite:///runs.db"
PEEKING = f"""
from itinerary import Itinerary, every

app = Itinerary()
LOOK = "grep -q {CANARY} /proc/$PPID/environ && echo read > seen.new || echo refused > seen.new; mv seen.new seen"
app.job("peek", every("1s")).shell("main", LOOK, use_shell=True)
app.job("sleeper", every("1h", start="2026-01-01T00:00:00Z")).shell("main", ["sleep", "3599.5"])
"""
IDENTITY = """
from itinerary import Itinerary, every

app = Itinerary()
SHOW = 'echo "uid $(id -u) gid $(id -g) groups $(id -G) home $HOME user $USER"'
app.job("identity", every("1s")).shell("main", SHOW, use_shell=True, cwd="/")
"""


def sleepers() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"sleep\x003599.5" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@needs_setpriv
@pytest.mark.spec("Q7", "the memory of a node")
@pytest.mark.parametrize(("allow_debugger", "seen"), [("false", "refused"), ("true", "read")])
def test_commands_of_the_same_user_cannot_read_the_memory_of_their_node(allow_debugger: str, seen: str) -> None:
    env = {"ITINERARY_SECRET_API": CANARY, "ITINERARY_ALLOW_DEBUGGER": allow_debugger}
    with public_directory(NOBODY) as place:
        (place / "app.py").write_text(PEEKING, "utf-8")
        with Program(place, "up", "app.py", "--store", STORE, within=AS_NOBODY, env=env) as node:
            node.until(lambda line: "  peek " in line and "completed" in line)
            assert (place / "seen").read_text("utf-8") == f"{seen}\n"
            with Program(place, "trigger", "sleeper", "--store", STORE, within=AS_NOBODY) as trigger:
                assert trigger.end() == 0, trigger.errors
            deadline = time.monotonic() + PATIENCE
            while not sleepers():
                assert time.monotonic() < deadline, node.errors
                time.sleep(0.05)
            node.signal(signal.SIGKILL)  # its supervisor, a process of the same user, ends what it left behind
            node.end()
            while sleepers():
                assert time.monotonic() < deadline + PATIENCE, "a command outlives its node"
                time.sleep(0.05)


@needs_root
@pytest.mark.spec("Q7", "who a task runs as")
@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"ITINERARY_USER": "nobody"}, "uid 65534 gid 65534 groups 65534 home /nonexistent user nobody"),
        ({"ITINERARY_USER": "65534", "ITINERARY_GROUP": "daemon"}, "uid 65534 gid 1 groups 1 home /nonexistent"),
        ({"ITINERARY_GROUP": "1"}, "uid 0 gid 1 groups 1 home"),
    ],
    ids=["user", "user and group", "group"],
)
def test_commands_run_as_the_user_and_group_of_the_settings_and_without_other_groups(
    tmp_path: Path, env: dict[str, str], told: str
) -> None:
    (tmp_path / "app.py").write_text(IDENTITY, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE, within=("setpriv", "--groups=0,4,27"), env=env) as node:
        node.until(lambda line: "  identity " in line and "completed" in line)
        node.signal(signal.SIGTERM)
        node.end()
    with Program(tmp_path, "show", "identity", "--last", "--store", STORE) as shown:
        shown.end()
    assert told in " ".join(" ".join(shown.output).split())


@needs_setpriv
@pytest.mark.spec("Q7", "who a task runs as")
@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"ITINERARY_USER": "root"}, "user: this node runs as user 65534, and may not run commands as uid 0, gid 0"),
        ({"ITINERARY_GROUP": "daemon"}, "group: this node runs as user 65534, and may not run commands as uid 65534"),
        ({"ITINERARY_USER": "no-such-user"}, "user: there is no user 'no-such-user' on this machine"),
        ({"ITINERARY_USER": "4000000"}, "user: 4000000 is not in the list of users, so its group is not known"),
    ],
    ids=["not root", "not root, a group", "no user", "a number"],
)
def test_a_node_that_cannot_run_commands_as_told_says_so_when_it_starts(env: dict[str, str], told: str) -> None:
    with public_directory(NOBODY) as place:
        (place / "app.py").write_text(IDENTITY, "utf-8")
        with Program(place, "up", "app.py", "--store", STORE, within=AS_NOBODY, env=env) as node:
            assert node.end() == 1
        assert told in " ".join(node.errors)
        assert not (place / "runs.db").exists()


@needs_setpriv
@pytest.mark.spec("Q7", "a store that others can change")
def test_root_reads_the_store_of_a_user_and_runs_no_node_on_it() -> None:
    with public_directory(NOBODY) as place:
        (place / "app.py").write_text(IDENTITY, "utf-8")
        with Program(place, "apply", "app.py", "--store", STORE, within=AS_NOBODY) as made:
            assert made.end() == 0, made.errors
        with Program(place, "jobs", "--store", STORE) as looked:
            assert looked.end() == 0, looked.errors
        assert {path.stat().st_uid for path in place.glob("runs.db*")} == {NOBODY}
        with Program(place, "up", "app.py", "--store", STORE) as node:
            assert node.end() == 1
        assert "belongs to nobody, who can change what this store runs" in " ".join(node.errors)
        with Program(place, "jobs", "--store", STORE, within=AS_NOBODY) as still:
            assert still.end() == 0, still.errors


@needs_setpriv
@pytest.mark.spec("Q7", "a store that others can change")
def test_a_user_is_refused_the_store_of_another_one(tmp_path: Path) -> None:
    with public_directory(0, 0o1777) as place:
        os.close(os.open(place / "runs.db", os.O_CREAT | os.O_WRONLY, 0o600))
        os.chown(place / "runs.db", 1, 1)
        (place / "runs.db").chmod(0o666)
        with Program(place, "jobs", "--store", STORE, within=AS_NOBODY) as looked:
            assert looked.end() == 1
        assert "runs.db: belongs to daemon, who can change what this store runs" in " ".join(looked.errors)
