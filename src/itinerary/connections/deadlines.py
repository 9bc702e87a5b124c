"""The time limits of a server for its clients, in seconds."""

from __future__ import annotations

from typing import Final

__all__ = ["BODY_TIMEOUT", "HEAD_TIMEOUT", "READ_TIMEOUT"]

HEAD_TIMEOUT: Final = 10.0
"""The time limit for the request line and the headers."""
BODY_TIMEOUT: Final = 30.0
"""The time limit for the body of a request."""
READ_TIMEOUT: Final = 30.0
"""The time limit for a client to read some of the data sent to it."""
