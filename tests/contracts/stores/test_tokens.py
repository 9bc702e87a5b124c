"""Tokens in every store: granted once, found by their hash, revoked once, listed after that (Q1)."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from itinerary.model.queries import TokenByNameQuery, TokenBySecretQuery, TokensQuery
from itinerary.model.rows import TokenRow
from itinerary.model.scopes import Scope
from itinerary.model.tokens import KEPT_FOR, TOKENS_MAX, NewToken, TokenRefused, WhyUngranted
from itinerary.stores.tables import TOKENS
from tests.contracts.stores.desk import HOUR, Desk, told


def new(name: str, digest: str | None = None, **values: object) -> NewToken:
    return NewToken(name=name, hash=digest or f"hash of {name}", **{"scope": Scope.OPERATE, "by": "anna", **values})  # type: ignore[arg-type]  # as the test gives them


async def granted(desk: Desk, token: NewToken) -> TokenRow:
    row = await desk.store.grant_token(token)
    assert isinstance(row, TokenRow), row
    return row


async def shift(desk: Desk, name: str, **values: object) -> None:
    """Change a row behind the store's back: its clock is nobody's to move."""
    row = (await desk.store.read(TokenByNameQuery(name))).row
    assert row is not None
    await desk.engine.write(lambda tx: tx.put(TOKENS, [replace(row, **values)]))


@pytest.mark.spec("Q1", "stored hashed")
@told
async def test_a_token_is_found_by_its_hash_and_by_its_name_with_the_stores_time(desk: Desk) -> None:
    before = await desk.now()
    row = await granted(desk, new("ci", expires_after=HOUR))
    assert (row.name, row.hash, row.scope, row.created_by) == ("ci", "hash of ci", Scope.OPERATE, "anna")
    assert before <= row.created_at <= await desk.now()
    assert row.expires_at == row.created_at + HOUR
    found = await desk.store.read(TokenBySecretQuery("hash of ci"))
    assert found.row == row
    assert found.now >= row.created_at
    assert (await desk.store.read(TokenByNameQuery("ci"))).row == row
    assert (await desk.store.read(TokenBySecretQuery("ci"))).row is None
    assert (await desk.store.read(TokenByNameQuery("hash of ci"))).row is None


@told
async def test_a_grant_that_is_repeated_answers_as_the_first_time(desk: Desk) -> None:
    row = await granted(desk, new("ci"))
    assert await granted(desk, new("ci")) == row
    assert (await desk.store.read(TokensQuery())).rows == (row,)


@told
async def test_a_name_that_is_taken_is_not_given_twice_even_when_its_token_is_revoked(desk: Desk) -> None:
    row = await granted(desk, new("ci"))
    assert await desk.store.grant_token(new("ci", "another")) == TokenRefused(WhyUngranted.TAKEN, row)
    revoked = await desk.store.revoke_token("ci", "boris", "left the company")
    assert await desk.store.grant_token(new("ci", "another")) == TokenRefused(WhyUngranted.TAKEN, revoked)
    assert (await desk.store.read(TokenBySecretQuery("another"))).row is None


@told
async def test_of_many_who_want_one_name_at_once_one_gets_it(desk: Desk) -> None:
    wanted = [desk.store.grant_token(new("ci", f"hash {number}")) for number in range(8)]
    answers = await asyncio.gather(*wanted)
    (won,) = [answer for answer in answers if isinstance(answer, TokenRow)]
    assert [answer for answer in answers if answer is not won] == [TokenRefused(WhyUngranted.TAKEN, won)] * 7


@pytest.mark.spec("Q1", "revoked")
@told
async def test_a_token_is_revoked_once_and_says_by_whom_and_why(desk: Desk) -> None:
    row = await granted(desk, new("ci"))
    revoked = await desk.store.revoke_token("ci", "boris", "left\0 the company")
    assert revoked is not None
    assert revoked.revoked_at is not None
    assert revoked == replace(
        row, revoked_at=revoked.revoked_at, revoked_by="boris", reason="left\N{REPLACEMENT CHARACTER} the company"
    )
    assert not revoked.is_good(revoked.revoked_at)
    assert await desk.store.revoke_token("ci", "carla", "again") == revoked
    assert (await desk.store.read(TokenBySecretQuery("hash of ci"))).row == revoked
    assert await desk.store.revoke_token("nobody", "boris") is None


@told
async def test_tokens_are_listed_by_name_good_or_not(desk: Desk) -> None:
    for name in ("zoe", "ci", "Ops", "grafana"):
        await granted(desk, new(name))
    await desk.store.revoke_token("ci", "anna")
    seen = await desk.store.read(TokensQuery())
    assert [row.name for row in seen.rows] == ["Ops", "ci", "grafana", "zoe"]
    assert [row.is_good(seen.now) for row in seen.rows] == [True, False, True, True]


@told
async def test_what_has_ended_90_days_ago_is_forgotten_with_the_next_one_and_nothing_else(desk: Desk) -> None:
    for name in ("revoked long ago", "revoked lately", "expired long ago", "expired lately", "old but good"):
        await granted(desk, new(name))
    now = await desk.now()
    long_ago, lately = now - KEPT_FOR, now - KEPT_FOR + HOUR
    await shift(desk, "revoked long ago", revoked_at=long_ago)
    await shift(desk, "revoked lately", revoked_at=lately)
    await shift(desk, "expired long ago", expires_at=long_ago)
    await shift(desk, "expired lately", expires_at=lately)
    await shift(desk, "old but good", created_at=1)
    assert len((await desk.store.read(TokensQuery())).rows) == 5
    again = await granted(desk, new("expired long ago", "a new hash"))
    assert [row.name for row in (await desk.store.read(TokensQuery())).rows] == [
        "expired lately",
        "expired long ago",
        "old but good",
        "revoked lately",
    ]
    assert (await desk.store.read(TokenBySecretQuery("a new hash"))).row == again
    assert (await desk.store.read(TokenBySecretQuery("hash of expired long ago"))).row is None


@pytest.mark.spec("Q4", "limits")
@told
async def test_there_are_at_most_so_many_tokens(desk: Desk) -> None:
    rows = [TokenRow(f"t{n}", f"hash {n}", Scope.READ, 1, "anna") for n in range(TOKENS_MAX - 1)]
    await desk.engine.write(lambda tx: tx.insert(TOKENS, rows))
    last = await granted(desk, new("last"))
    assert await desk.store.grant_token(new("one too many")) == TokenRefused(WhyUngranted.FULL)
    assert await granted(desk, new("last")) == last, "a repeated request is not a new one"
    assert len((await desk.store.read(TokensQuery())).rows) == TOKENS_MAX
