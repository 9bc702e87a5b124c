"""Secrets in files: `ITINERARY_SECRET_X_FILE` names the file that holds the secret X.

A secret in a file is not in any environment that another process could read. An operator can replace it while the node
runs, because the file is read at every use. Container platforms and systemd provide secrets in this form.

One newline at the end is removed, because editors add one. Only a regular file of at most 64 KiB is read: a pipe would
make a task wait, and a device has no end. Errors name the variable and the file, never the content of the file.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from itinerary.errors import ConfigError

__all__ = ["SECRET_FILE_MAX", "read_secret_file"]

SECRET_FILE_MAX: Final = 65_536
"""The largest file of a secret, in bytes."""


def read_secret_file(variable: str, path: str) -> str:
    """Return the secret in a file.

    Args:
        variable: The environment variable that names the file, for the errors.
        path: The file.

    Raises:
        ConfigError: If the file cannot be read, is not a regular file, is too large, is empty, or is not UTF-8.
    """
    content = _read(variable, path)
    if len(content) > SECRET_FILE_MAX:
        raise ConfigError(f"{variable}: {path} has more than {SECRET_FILE_MAX} bytes; a secret is shorter")
    text = _decoded(content)
    if text is None:
        raise ConfigError(f"{variable}: {path} is not UTF-8; write the secret as text")
    secret = text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")
    if not secret:
        raise ConfigError(f"{variable}: {path} is empty; write the secret into it")
    return secret


def _decoded(content: bytes) -> str | None:
    """Decode a secret; return None if it is not UTF-8. The exception contains the secret, so it is not passed on."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _read(variable: str, path: str) -> bytes:
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ConfigError(
            f"{variable}: {path} cannot be read: {error.strerror}; give the path of a file that the node may read"
        ) from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ConfigError(f"{variable}: {path} is no regular file; write the secret into a file")
        with os.fdopen(os.dup(handle), "rb") as file:
            return file.read(SECRET_FILE_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{variable}: {path} cannot be read: {error.strerror}") from None
    finally:
        os.close(handle)
