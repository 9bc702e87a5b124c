"""The options of the program itself: its version, and completion for shells."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class

from itinerary.node.thread import installed_version

__all__ = ["program_options"]

Act = Callable[[click.Context, click.Parameter, bool], None]
_PROGRAM: Final = "itinerary"
_PLACES: Final = {
    "bash": ".local/share/bash-completion/completions/itinerary",
    "fish": ".config/fish/completions/itinerary.fish",
    "zsh": ".zfunc/_itinerary",
}
"""The file of each shell's completions, in the home folder of the user."""
_ZSH_SETUP: Final = "fpath+=~/.zfunc; autoload -Uz compinit; compinit"


def program_options() -> list[click.Parameter]:
    """Return the options that `itinerary` takes without a command."""
    return [
        _switch("--version", "Print the version, and end.", _print_version),
        _switch("--install-completion", "Install completion for the current shell.", _install_completion),
        _switch("--show-completion", "Show completion for the current shell.", _print_completion),
    ]


def _switch(name: str, about: str, act: Act) -> click.Option:
    return click.Option([name], is_flag=True, is_eager=True, expose_value=False, help=about, callback=act)


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's call
    if wanted and not context.resilient_parsing:
        click.echo(f"{_PROGRAM} {installed_version()}")
        context.exit()


def _print_completion(context: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's call
    if wanted and not context.resilient_parsing:
        click.echo(_script(context, _shell(context)))
        context.exit()


def _install_completion(context: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's call
    if not wanted or context.resilient_parsing:
        return
    shell = _shell(context)
    place = Path.home() / _PLACES[shell]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(_script(context, shell), encoding="utf-8")
    click.echo(f"{shell} completion is installed in {place}; it takes effect in a new shell")
    setup = Path.home() / ".zshrc"
    if shell == "zsh" and _ZSH_SETUP not in (setup.read_text(encoding="utf-8") if setup.exists() else ""):
        with setup.open("a", encoding="utf-8") as file:
            file.write(f"\n{_ZSH_SETUP}\n")
    context.exit()


def _shell(context: click.Context) -> str:
    shell = Path(os.environ.get("SHELL", "")).name
    if shell not in _PLACES:
        context.fail(f"completion exists for {', '.join(_PLACES)}; the variable SHELL names none of them: {shell!r}")
    return shell


def _script(context: click.Context, shell: str) -> str:
    kind = get_completion_class(shell)
    assert kind is not None, "click has a completion for each of these shells"
    return kind(context.command, {}, _PROGRAM, "_ITINERARY_COMPLETE").source()
