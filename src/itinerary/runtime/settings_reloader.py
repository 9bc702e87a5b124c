"""The settings reloader: applies settings that were changed while the node runs (U13).

    request (SIGHUP) ─► read the settings again ─┬─► invalid: the old settings stay, and the log says why
                                                 ├─► can change while running: every component uses them
                                                 └─► the others: the log says that a restart is needed

Ten requests at once cause one reload. A request during a reload causes one more. The result is logged as a warning,
which is visible even if other log lines are left out: an operator waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from itinerary.errors import ConfigError
from itinerary.model.settings import ReloadResult, Settings
from itinerary.runtime.index_builder import Elsewhere

__all__ = ["SettingsReloader"]


class SettingsReloader:
    """The component that reloads settings on request."""

    def __init__(
        self,
        reread: Callable[[], ReloadResult] | None,
        take: Callable[[Settings], Awaitable[None]],
        *,
        elsewhere: Elsewhere,
        log: Any,
    ) -> None:
        """Create a reloader.

        Args:
            reread: Reads the settings, without blocking the loop; None if they have no source.
            take: Applies the settings to the node.
            elsewhere: Runs a function without blocking the loop.
            log: The log of the node.
        """
        self._reread, self._take, self._elsewhere, self._log = reread, take, elsewhere, log
        self._is_wanted = asyncio.Event()

    def ask(self) -> None:
        """Request a reload."""
        self._is_wanted.set()

    async def run(self) -> None:
        """Reload on each request, until cancelled."""
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            if self._reread is not None:
                await self._read(self._reread)

    async def _read(self, reread: Callable[[], ReloadResult]) -> None:
        try:
            found: ReloadResult = await self._elsewhere(reread)
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
