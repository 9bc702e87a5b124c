"""A real node behind real proxies, and callers of this machine: no caller gets in without a token (Q1, Q2)."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.cli.program import PATIENCE, Program

APP = """
from itinerary import Itinerary, every

app = Itinerary()


@app.job(every("1h"))
def hourly() -> None: ...
"""
NAMED = 'web_names = ["jobs.example.com"]\n'
NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://{node};
            proxy_set_header Host $http_host;
        }}
    }}
}}
"""
HAPROXY = """
defaults
    mode http
    timeout connect 10s
    timeout client 10s
    timeout server 10s
frontend all
    bind 127.0.0.1:{port}
    default_backend node
backend node
    server node {node}
"""
"""As HAProxy is by default: it adds no header that says so."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def proxy(kind: str, folder: Path, node: str) -> Iterator[int]:
    """Run a proxy in front of a node. Yields its port."""
    program = shutil.which(kind, path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip(f"{kind} is not installed; tools/proxies installs it")
    folder.mkdir()
    port, file = free_port(), folder / "configuration"
    text = {"nginx": NGINX, "haproxy": HAPROXY}[kind].format(folder=folder, port=port, node=node)
    file.write_text(text, "utf-8")
    arguments = {"nginx": ["-p", str(folder), "-c", str(file)], "haproxy": ["-db", "-f", str(file)]}[kind]
    process = subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603 - of this machine
    try:
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, f"{kind} does not answer"
        assert process.poll() is None, f"{kind} ended with {process.returncode}"
        yield port
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()


@contextmanager
def node(folder: Path, settings: str = "") -> Iterator[str]:
    """Run a node with its dashboard. Yields its address."""
    (folder / "app.py").write_text(APP, "utf-8")
    (folder / "itinerary.toml").write_text(settings, "utf-8")
    with Program(folder, "up", "app.py", "--store", "sqlite:///runs.db", web="127.0.0.1:0") as running:
        line = running.until(lambda line: "dashboard on" in line)
        found = re.search(r"127\.0\.0\.1:\d+", line)
        assert found is not None
        yield found[0]
        running.signal(signal.SIGTERM)
        assert running.end() == 0


def make_token(folder: Path) -> str:
    arguments = ("token", "create", "me", "--scope", "admin", "--store", "sqlite:///runs.db")
    with Program(folder, *arguments) as made:
        assert made.end() == 0
    return next(line for line in made.output if line.startswith("itn_"))


def status(port: int, host: str, *headers: str, user: int | None = None) -> int:
    """Ask for the jobs over a socket of its own, as a user of this machine. Returns the status of the answer."""
    lines = ["GET /api/v1/jobs HTTP/1.1", f"Host: {host}", "Connection: close", *headers, "", ""]
    script = 'exec 3<>/dev/tcp/127.0.0.1/$1 && printf "%s" "$2" >&3 && head -n 1 <&3'
    told = subprocess.run(  # noqa: S603 - our own
        ["/bin/bash", "-c", script, "bash", str(port), "\r\n".join(lines)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=PATIENCE,
        user=user,
        cwd="/",
    )
    return int(told.stdout.split()[1])


@pytest.mark.spec("Q1", "behind a proxy")
@pytest.mark.parametrize("kind", ["nginx", "haproxy"])
def test_no_caller_is_local_behind_a_proxy_whatever_host_it_names(kind: str, tmp_path: Path) -> None:
    text = make_token(tmp_path)
    with node(tmp_path, NAMED) as address, proxy(kind, tmp_path / kind, address) as port:
        own = int(address.rpartition(":")[2])
        for host in (address, f"localhost:{own}", f"[::1]:{own}", "127.0.0.1", "other.example.com"):
            assert status(port, host) == 421, host
        assert status(port, "jobs.example.com") == 401
        assert status(port, "jobs.example.com", f"Authorization: Bearer {text}") == 200
        assert status(own, address) == 421, "past the proxy, too"


@pytest.mark.spec("Q1", "behind a proxy")
@pytest.mark.skipif(os.geteuid() != 0, reason="a proxy has a user of its own only if root starts it")
def test_a_proxy_without_a_name_in_the_settings_gets_no_further_than_any_other_user(tmp_path: Path) -> None:
    with node(tmp_path) as address, proxy("nginx", tmp_path / "nginx", address) as port:
        assert status(port, address) == 401, "the connection is of nginx's own user"
        assert status(int(address.rpartition(":")[2]), address) == 200


@pytest.mark.spec("Q2", "local")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_needs_a_token(tmp_path: Path) -> None:
    with node(tmp_path) as address:
        port = int(address.rpartition(":")[2])
        assert status(port, address) == 200
        assert status(port, address, user=65_534) == 401
        text = make_token(tmp_path)
        assert status(port, address, f"Authorization: Bearer {text}", user=65_534) == 200
