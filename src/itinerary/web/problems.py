"""What went wrong, as an answer: problem details (RFC 9457) for programs, a page for people.

NodeError, ConfigError, …     400, 404 or 409: what was asked for cannot be done, and why
StoreError                    503: the store cannot be reached, and since when
a refusal                     401, 403, 413, 421, 429 …: see `access`
anything else                 500: a bug of ours; the log has it, the answer does not
"""

from __future__ import annotations

import msgspec

__all__ = ["PROBLEM_TYPE", "Problem", "Refused"]

PROBLEM_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """RFC 9457's members, in its order."""

    status: int
    title: str
    detail: str
    type: str = "about:blank"
    instance: str | None = None


class Refused(Exception):
    """A request that is answered with a problem."""

    def __init__(self, status: int, title: str, detail: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(detail)
        self.status, self.title, self.detail = status, title, detail
        self.headers = headers
        """What is sent with the answer besides."""

    def problem(self, instance: str | None = None) -> Problem:
        """As programs are told."""
        return Problem(status=self.status, title=self.title, detail=self.detail, instance=instance)
