"""The rereader: takes over settings that were changed while the node runs (U13).

    somebody asks (SIGHUP) ─► read them again ─┬─► wrong: everything stays as it was, and the log says why
                                               ├─► what can change live: every part of the node goes by it from now on
                                               └─► the rest: the log says that a restart is needed

Who asks ten times at once is answered once; who asks while it reads is answered by reading once more. What comes of it
is a warning in the log, since that is seen whatever else is left out: somebody waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from itinerary.errors import ConfigError
from itinerary.model.settings import Reread, Settings
from itinerary.runtime.index_builder import Elsewhere

__all__ = ["Rereader"]


class Rereader:
    """Reads settings again when it is asked to."""

    def __init__(
        self,
        reread: Callable[[], Reread] | None,
        take: Callable[[Settings], Awaitable[None]],
        *,
        elsewhere: Elsewhere,
        log: Any,
    ) -> None:
        """`reread` reads them, where that holds up nobody; None: there is no place to read them from. `take` has the
        node go by them."""
        self._reread, self._take, self._elsewhere, self._log = reread, take, elsewhere, log
        self._is_wanted = asyncio.Event()

    def ask(self) -> None:
        """Read them again, soon."""
        self._is_wanted.set()

    async def run(self) -> None:
        """Do so whenever somebody asks."""
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            if self._reread is not None:
                await self._read(self._reread)

    async def _read(self, reread: Callable[[], Reread]) -> None:
        try:
            found: Reread = await self._elsewhere(reread)
        except ConfigError as error:
            self._log.error("settings.not_reread", error=str(error), hint="everything stays as it was")
            return
        if found.changed:
            await self._take(found.settings)
            self._log.warning("settings.reread", **found.changed)
            for warning in found.settings.warnings():
                self._log.warning("settings.questionable", what=warning)
        if found.needs_restart:
            names = ", ".join(found.needs_restart)
            self._log.warning("settings.need_restart", settings=names, hint="they stay as they were until then")
        if found.needs_apply:
            names = ", ".join(found.needs_apply)
            hint = "`itinerary apply` or the next start stores them; nodes go by what the store has"
            self._log.warning("settings.need_apply", settings=names, hint=hint)
        if not (found.changed or found.needs_restart or found.needs_apply):
            self._log.warning("settings.unchanged", hint="what was read again says what holds already")
