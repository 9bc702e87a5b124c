"""Errors as responses: problem details (RFC 9457) for programs, a page for people.

NodeError, ConfigError, …     400, 404 or 409: the request is impossible, with the reason
StoreError                    503: the store cannot be reached, with the start of the outage
a rejection                   401, 403, 413, 421, 429 …: see `access`
anything else                 500: our bug; the log has the details, the response does not
"""

from __future__ import annotations

import msgspec

__all__ = ["PROBLEM_TYPE", "ProblemDocument", "RequestRefused"]

PROBLEM_TYPE = "application/problem+json"


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The members of RFC 9457, in its order."""

    status: int
    title: str
    detail: str
    type: str = "about:blank"
    instance: str | None = None


class RequestRefused(Exception):
    """Raised to respond to a request with a problem."""

    def __init__(self, status: int, title: str, detail: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(detail)
        self.status, self.title, self.detail = status, title, detail
        self.headers = headers
        """Further headers of the response."""

    def problem(self, instance: str | None = None) -> ProblemDocument:
        """Return the problem details, for programs."""
        return ProblemDocument(status=self.status, title=self.title, detail=self.detail, instance=instance)
