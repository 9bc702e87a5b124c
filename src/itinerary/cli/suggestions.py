"""Suggestions for a command that does not exist: similar commands, and never one that deletes."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

import click

from itinerary.cli.commands import Commands

__all__ = ["SuggestingCommands"]

_DELETING: Final = frozenset({"prune"})
_MEANT: Final = {
    "add": ("apply",),
    "delete": (),
    "kill": ("cancel",),
    "list": ("jobs",),
    "log": ("show", "history"),
    "logs": ("show", "history"),
    "ls": ("jobs",),
    "ps": ("jobs", "history"),
    "remove": (),
    "rerun": ("replay",),
    "retry": ("replay",),
    "run": ("up", "trigger"),
    "serve": ("up",),
    "start": ("up", "resume"),
    "stop": ("pause", "cancel"),
    "validate": ("check",),
    "why": ("explain",),
}
"""Words of other programs, with the commands that do the same here."""


class SuggestingCommands(Commands):
    """The commands of the program."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the typed command. A command that does not exist is a usage error with a suggestion."""
        word = args[0] if args else ""
        is_unknown = bool(word) and not word.startswith("-") and self.get_command(ctx, word) is None
        if is_unknown and not ctx.resilient_parsing:
            ctx.fail(f"No such command {word!r}.{self._hint(word)}")
        return super().resolve_command(ctx, args)

    def _hint(self, word: str) -> str:
        safe = [name for name in self.commands if name not in _DELETING]
        meant = _MEANT.get(word.lower())
        found = get_close_matches(word, safe) if meant is None else [name for name in meant if name in self.commands]
        return f" Did you mean {' or '.join(map(repr, found))}?" if found else ""
