"""`itinerary token`: create, list and revoke the tokens of the web server (Q1).

    token create NAME     prints the new token on standard output, only this once; notes go to standard error,
                          so that `$(itinerary token create ci)` is the token alone
    token list            all tokens, valid or not, and never a token's text
    token revoke NAME     invalid from then on; running servers refuse it within seconds

None of these commands needs a node.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Final, TypeVar

import click
import msgspec
from rich.text import Text

from itinerary.cli.commands import Argument, Commands, Option
from itinerary.cli.layout import Cell, TableColumn, print_table
from itinerary.cli.list import existing_store
from itinerary.cli.options import AsJson, Store, errors_told, store_url
from itinerary.cli.output import print_json, say, screen, told_at
from itinerary.cli.run_command import run_command
from itinerary.errors import ConfigError
from itinerary.model.scopes import Scope
from itinerary.operations.operator import local_user
from itinerary.operations.tokens import EXPIRES_AFTER, IssuedToken, TokenInfo, create, listed, revoke
from itinerary.schedules.instants import microseconds_of
from itinerary.stores.store import EngineStore
from itinerary.stores.urls import open_store

__all__ = ["add_tokens", "print_tokens"]

T = TypeVar("T")
_NEVER: Final = "never"

Name = Annotated[str, Argument(metavar="NAME", help="What the history calls whoever uses it: ci, anna-laptop.")]


def add_tokens(app: Commands) -> None:
    """Add these commands to the app."""
    tokens = Commands("token", about="Tokens for the web server: make one, list them, revoke one.")
    tokens.add(make, "create")
    tokens.add(show, "list")
    tokens.add(withdraw, "revoke")
    app.add_command(tokens)


def make(
    name: Name,
    scope: Annotated[
        Scope, Option("--scope", help="What it is good for; each contains the one before it.")
    ] = Scope.READ,
    expires: Annotated[
        str,
        Option("--expires", metavar="DURATION", help="After how long it expires, 30d or 8h; `never`: it does not."),
    ] = EXPIRES_AFTER,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Create a token, and print it once: only its hash is kept. A store that is not there yet is made."""

    async def run(opened: EngineStore) -> IssuedToken:
        return await create(opened, name, scope, by=local_user(), expires=None if expires == _NEVER else expires)

    with errors_told():
        made = run_command(_on(store, run, makes=True))
        if as_json:
            print_json({**msgspec.structs.asdict(made.token), "token": made.text})
            return
        console = screen(errors=True)
        until = (
            ", and never expires" if made.token.expires_at is None else f", and expires {_told(made.token.expires_at)}"
        )
        say(f"token {name} has scope {scope.value}{until}", console)
        click.echo(made.text)
        say("It is shown this once: only its hash is kept. Put it where your secrets are.", console)


def show(
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """List tokens: the scope, the creator, and the times of creation and expiry of each.

    Revoked and expired ones stay listed for 90 days.
    """

    async def look(opened: EngineStore) -> list[TokenInfo]:
        return await listed(opened.read)

    with errors_told():
        found = run_command(_on(store, look))
        if as_json:
            print_json(found)
        elif found:
            print_tokens(found)
        else:
            say("there are no tokens; `itinerary token create NAME` makes one")


def withdraw(
    name: Annotated[str, Argument(metavar="NAME", help="The name of a token.")],
    reason: Annotated[str | None, Option("--reason", metavar="TEXT", help="Why; it is kept with who and when.")] = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Revoke a token, and end the sessions that it started. Running servers refuse it within seconds."""

    async def run(opened: EngineStore) -> TokenInfo:
        return await revoke(opened, name, by=local_user(), reason=reason)

    with errors_told():
        found = run_command(_on(store, run))
        if as_json:
            print_json(found)
            return
        assert found.revoked_at is not None, "it was just revoked"
        say(f"token {name} is revoked since {_told(found.revoked_at)}, by {found.revoked_by}")


def print_tokens(found: list[TokenInfo]) -> None:
    """Print tokens in a table."""
    columns = (
        TableColumn("token"),
        TableColumn("scope"),
        TableColumn("state"),
        TableColumn("until", 1),
        TableColumn("created", 3),
        TableColumn("by", 2),
        TableColumn("why", 4, wraps_at=20),
    )
    print_table(columns, [_row(token) for token in found])


def _row(token: TokenInfo) -> list[Cell]:
    ends = [end for end in (token.expires_at, token.revoked_at) if end is not None]
    revoked = "" if token.revoked_by is None else f"revoked by {token.revoked_by}"
    why = f"{revoked}: {token.reason}" if token.reason else revoked
    return [
        token.name,
        token.scope.value,
        Text(token.state, "green" if token.state == "good" else "cyan"),
        _told(min(ends)) if ends else "no end",
        _told(token.created_at),
        token.created_by,
        why or None,
    ]


def _told(moment: datetime) -> str:
    return f"{told_at(microseconds_of(moment))} UTC"


async def _on(given: str | None, work: Callable[[EngineStore], Awaitable[T]], *, makes: bool = False) -> T:
    """Return the result of work on the store that the options name."""
    url = store_url(given)
    if url.startswith("memory:"):
        raise ConfigError("a token in memory: is gone with this process; name a store that lasts with --store")
    if not makes:
        await existing_store(url)
    async with open_store(url) as opened:
        return await work(opened)
