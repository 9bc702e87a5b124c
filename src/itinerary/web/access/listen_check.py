"""Where the web server may listen: on loopback, or anywhere as soon as a token exists (Q1)."""

from __future__ import annotations

from itinerary.errors import NodeError
from itinerary.observe.listen_address import ListenAt

__all__ = ["check_listening"]


def check_listening(at: ListenAt, *, has_tokens: bool) -> None:
    """Raise NodeError unless listening there is safe. `has_tokens`: at least one token is valid now."""
    if at.is_loopback or has_tokens:
        return
    raise NodeError(
        f"web: {at} can be reached from elsewhere, and there is no token yet that could keep others out;"
        " make one with `itinerary token create NAME --scope admin`, or listen on loopback: 127.0.0.1"
    )
