"""Webhooks: post an alert to a URL, signed, to an address that was checked (U12, Q5).

    resolve once ──► check each address ──► connect to a checked address ──► POST ──► 2xx: delivered

The rules are those of HTTP tasks: private and link-local addresses are refused unless the operator allows the host by
name, and redirects are not followed. A URL is often a secret itself: it may be a reference, and messages name only the
host. The signature is HMAC-SHA256 over the timestamp, a dot, and the body.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Collection
from typing import Final, Protocol

import msgspec

from itinerary.errors import ConfigError, ItineraryError
from itinerary.executors.address_policy import HostLookup, checked_addresses, system_lookup
from itinerary.executors.host_names import read_allowed
from itinerary.executors.http_definition import read_http
from itinerary.executors.secrets import Secret, SecretResolver, Value, environment_secret, resolve_values
from itinerary.model.text import clean_text

__all__ = ["AlertSender", "DeliveryFailed", "Receiver", "Webhook", "receiver_of", "signature"]

_TIMEOUT: Final = 10.0
"""The maximum time for an answer of the receiver, in seconds."""
_URL: Final = "url"
_ERROR_MAX: Final = 300
_UNUSABLE: Final = "the URL of a receiver, or the secret that it is, cannot be used; check it"


class DeliveryFailed(ItineraryError):
    """An alert that did not arrive."""


class Receiver(msgspec.Struct, frozen=True):
    """A receiver of alerts."""

    url: Value
    name: str
    """The name in the log of deliveries. The URL cannot be computed from it."""


def receiver_of(url: Value) -> Receiver:
    """Return a receiver whose name is the digest of its URL, or of the name of the secret with the URL."""
    text = f"secret {url.name}" if isinstance(url, Secret) else url
    return Receiver(url, hashlib.sha256(text.encode()).hexdigest()[:16])


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a body. The receiver computes the same to verify the sender."""
    digest = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return f"sha256={digest}"


class AlertSender(Protocol):
    """A way to send a body to a receiver."""

    async def post(self, receiver: Receiver, alert: str, body: bytes, timestamp: int) -> None:
        """Send a body once. Raise DeliveryFailed on failure."""


class Webhook:
    """The sender of alerts by HTTP."""

    def __init__(
        self,
        *,
        allowed_hosts: Collection[str] = (),
        signing: Secret | None = None,
        secrets: SecretResolver = environment_secret,
        lookup: HostLookup = system_lookup,
    ) -> None:
        """Keep the rules and the secrets.

        Args:
            allowed_hosts: Hosts whose private addresses are allowed.
            signing: The secret that signs bodies; None: no signature.
            secrets: Resolves references to secrets.
            lookup: Resolves host names.
        """
        self._allowed, self._signing = read_allowed(allowed_hosts), signing
        self._secrets, self._lookup = secrets, lookup

    async def post(self, receiver: Receiver, alert: str, body: bytes, timestamp: int) -> None:
        """Post a body once.

        Raises:
            DeliveryFailed: The alert did not arrive. The message names the host and no other part of the URL.
        """
        import aiohttp  # noqa: PLC0415 - slow to import, and most programs never send an alert

        from itinerary.executors.pinned_resolver import PinnedResolver  # noqa: PLC0415 - imports aiohttp

        host = "the receiver"
        try:
            call = read_http({"http": await self._resolved(receiver.url), "method": "POST"})
            host = call.host
            addresses = await checked_addresses(call.host, call.port, self._allowed, self._lookup)
            connector = aiohttp.TCPConnector(
                resolver=PinnedResolver(call.host, addresses), use_dns_cache=False, force_close=True, limit=1
            )
            timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
            headers = await self._headers(alert, body, str(timestamp))
            async with (
                aiohttp.ClientSession(connector=connector, trust_env=False, timeout=timeout) as session,
                session.post(call.url, data=body, headers=headers, allow_redirects=False) as response,
            ):
                status = response.status
        except TimeoutError:
            raise DeliveryFailed(f"{host} has not answered for {_TIMEOUT:g} s") from None
        except ConfigError:  # the message may quote the URL, which may be a secret
            raise DeliveryFailed(_UNUSABLE) from None
        except ItineraryError as error:
            raise DeliveryFailed(clean_text(str(error), _ERROR_MAX)) from None
        except (aiohttp.ClientError, OSError) as error:
            raise DeliveryFailed(f"{host} cannot be reached: {type(error).__name__}") from None
        if not 200 <= status <= 299:
            redirect = "; redirects are not followed" if 300 <= status <= 399 else ""
            raise DeliveryFailed(f"{host} answered {status}{redirect}")

    async def check(self, receiver: Receiver) -> str:
        """Check that a receiver can be reached: its URL, its address, a connection. Nothing is sent.

        Returns:
            The host.

        Raises:
            DeliveryFailed: An alert would not arrive. The message names the host and no other part of the URL.
        """
        host = "the receiver"
        try:
            await self._headers("", b"", "0")  # fails if the secret of the signature is missing
            call = read_http({"http": await self._resolved(receiver.url), "method": "POST"})
            host = call.host
            addresses = await checked_addresses(call.host, call.port, self._allowed, self._lookup)
            is_secure = call.url.startswith("https:")
            async with asyncio.timeout(_TIMEOUT):
                _, writer = await asyncio.open_connection(
                    addresses[0], call.port, ssl=is_secure or None, server_hostname=call.host if is_secure else None
                )
            writer.close()
        except TimeoutError:
            raise DeliveryFailed(f"{host} has not answered for {_TIMEOUT:g} s") from None
        except ConfigError:
            raise DeliveryFailed(_UNUSABLE) from None
        except ItineraryError as error:
            raise DeliveryFailed(clean_text(str(error), _ERROR_MAX)) from None
        except OSError as error:
            raise DeliveryFailed(f"{host} cannot be reached: {error.strerror or type(error).__name__}") from None
        return host

    async def _resolved(self, value: Value) -> str:
        if not isinstance(value, Secret):
            return value
        found, _ = await asyncio.to_thread(resolve_values, {_URL: value}, self._secrets)  # the secret may be in a file
        return found[_URL]

    async def _headers(self, alert: str, body: bytes, timestamp: str) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "itinerary",
            "Idempotency-Key": alert,
            "Itinerary-Timestamp": timestamp,
        }
        if self._signing is not None:
            headers["Itinerary-Signature"] = signature(await self._resolved(self._signing), timestamp, body)
        return headers
