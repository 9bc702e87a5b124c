"""An hourly schedule that is not due while a test runs, at whatever time of the day that is.

A test on the real clock that declares `every("1h")` meets a whole hour now and then: for the seconds that it takes, in
each hour. It finds a run then that it has not asked for. These hours begin two minutes before the tests do.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from itinerary import every

__all__ = ["HOUR", "HOURLY", "LAST_HOUR"]

HOUR: Final = timedelta(hours=1)
LAST_HOUR: Final = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=2)
"""The last instant of `HOURLY`: a while ago, and the next is a while off."""
HOURLY: Final = every("1h", start=LAST_HOUR - timedelta(days=20_000))
