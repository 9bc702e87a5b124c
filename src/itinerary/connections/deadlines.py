"""How long a server waits for a client, in seconds."""

from __future__ import annotations

from typing import Final

__all__ = ["BODY_TIMEOUT", "HEAD_TIMEOUT", "READ_TIMEOUT"]

HEAD_TIMEOUT: Final = 10.0
"""In this time the line and the headers of a request must arrive."""
BODY_TIMEOUT: Final = 30.0
"""In this time the body of a request must arrive."""
READ_TIMEOUT: Final = 30.0
"""In this time a client must take some of what is sent to it."""
