"""An app in which things go wrong, to see how that looks: `itinerary up examples/trouble.py`, and open its dashboard.

newsletter    every 30 seconds, and now and then it cannot be helped: its retries are used up, and it fails
archive       every 45 seconds, and pauses itself for two minutes when the tape is full

Chance decides. Ask the program why, from another terminal:

    itinerary history newsletter
    itinerary explain archive
"""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta

from itinerary import Itinerary, Retry, every

app = Itinerary()


@app.job(every("30s"), retry=Retry(max_retries=1, retry_interval="2s"))
def newsletter() -> int:
    """Fails for good now and then."""
    print("connecting to the mail server")
    if random.random() < 0.6:  # noqa: S311 - no secret
        raise ConnectionRefusedError("the mail server does not want it")
    return 1_024


@app.job(every("45s"))
async def archive() -> None:
    """Pauses itself: what falls into a pause is skipped, with the reason."""
    await asyncio.sleep(2)
    if random.random() < 0.5:  # noqa: S311 - no secret
        later = datetime.now(UTC) + timedelta(minutes=2)
        await app["archive"].pause(reason="the tape is full; somebody changes it", until=later)


if __name__ == "__main__":
    raise SystemExit(app.run())
