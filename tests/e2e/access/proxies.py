"""Real proxies before a node, set up as the page about tokens says, and as barely as they can be."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.docs.pages import DOCS, Page
from tests.e2e.cli.program import PATIENCE

__all__ = ["KINDS", "NAMED", "documented", "is_installed", "proxy"]

KINDS: Final = ("nginx", "haproxy", "caddy")
NAMED: Final = 'web_names = ["https://jobs.example.com"]\n'
_DOCUMENTED_NODE: Final = "127.0.0.1:8321"
_BARE: Final = {
    "nginx": "location / {\n    proxy_pass http://127.0.0.1:8321;\n    proxy_set_header Host $http_host;\n}\n",
    "haproxy": "backend itinerary\n    server node 127.0.0.1:8321\n",
    "caddy": """jobs.example.com {
    reverse_proxy 127.0.0.1:8321 {
        header_up -X-Forwarded-For
        header_up -X-Forwarded-Host
        header_up -X-Forwarded-Proto
    }
}
""",
}
"""The settings that pass on `Host` and add as few headers of their own as there can be."""
_AROUND: Final = {
    "nginx": """
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
        {block}
    }}
}}
""",
    "haproxy": """
defaults
    mode http
    timeout connect 60s
    timeout client 60s
    timeout server 60s
frontend all
    bind 127.0.0.1:{port}
    default_backend itinerary
{block}
""",
    "caddy": """
{{
    admin off
    auto_https off
    default_bind 127.0.0.1
    storage file_system {folder}/storage
}}
{block}
""",
}
_ARGUMENTS: Final = {
    "nginx": ("-p", "{folder}", "-c", "{file}"),
    "haproxy": ("-db", "-f", "{file}"),
    "caddy": ("run", "--adapter", "caddyfile", "--config", "{file}"),
}


def documented(kind: str) -> str:
    """Return the block of the page about tokens for a proxy."""
    marks = {"nginx": "proxy_pass ", "haproxy": "backend ", "caddy": "reverse_proxy "}
    (found,) = [block.source for block in Page(DOCS / "how-to/tokens.md").blocks if marks[kind] in block.source]
    assert _DOCUMENTED_NODE in found
    return found


def is_installed(kind: str) -> bool:
    return _program(kind) is not None


@contextmanager
def proxy(kind: str, folder: Path, node: str, *, is_bare: bool = False) -> Iterator[int]:
    """Run a proxy before a node, on loopback and without encryption. Yields its port. Skips where there is none."""
    program = _program(kind)
    if program is None:
        pytest.skip(f"{kind} is not installed; tools/proxies installs it where apt-get works")
    folder.mkdir()
    port, file, log = _free_port(), folder / "configuration", folder / "log"
    block = (_BARE[kind] if is_bare else documented(kind)).replace(_DOCUMENTED_NODE, node)
    block = block.replace("jobs.example.com {", f"http://:{port} {{")
    file.write_text(_AROUND[kind].format(folder=folder, port=port, block=block), "utf-8")
    arguments = [one.format(folder=folder, file=file) for one in _ARGUMENTS[kind]]
    environment = {**os.environ, "HOME": str(folder)}
    with (
        log.open("wb") as output,
        subprocess.Popen([program, *arguments], env=environment, stdout=output, stderr=output) as process,  # noqa: S603 - of this machine
    ):
        try:
            _wait_for(process, port, log)
            yield port
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def _program(kind: str) -> str | None:
    return shutil.which(kind, path=f"{os.environ['PATH']}:/usr/sbin")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"the proxy does not answer: {log.read_text('utf-8', 'replace')}")
