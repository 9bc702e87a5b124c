"""The one server of the tests."""

from tests.servers import postgres_server

__all__ = ["postgres_server"]
