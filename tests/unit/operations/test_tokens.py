"""Tokens as people make and revoke them, and as a server finds them (Q1)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from itinerary.errors import DurationError, IdentityError, StoreUnavailable, TokenError
from itinerary.model.queries import Answer, Query
from itinerary.model.scopes import Scope
from itinerary.operations.tokens import (
    FRESH_FOR,
    STALE_FOR,
    TokenBook,
    ValidToken,
    create,
    digest_of,
    has_tokens,
    listed,
    new_text,
    revoke,
)
from itinerary.schedules.durations import SECOND
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.store import EngineStore

DAY = 86_400 * SECOND


class Office:
    """A store whose clock the test moves, and which may be away; a book of its tokens, and how often it asked."""

    def __init__(self) -> None:
        self.now = 1_800_000_000 * SECOND
        self.store = EngineStore(MemoryEngine(lambda: self.now))
        self.is_away = False
        self.asked = 0
        self.book = TokenBook(self._read, elapsed=lambda: self.now - 7 * DAY)

    async def _read(self, query: Query[Answer]) -> Answer:
        self.asked += 1
        if self.is_away:
            raise StoreUnavailable("memory: does not answer")
        return await self.store.read(query)

    def pass_by(self, microseconds: int) -> None:
        self.now += microseconds

    async def token(self, name: str = "ci", scope: Scope = Scope.OPERATE, expires: str | None = None) -> str:
        return (await create(self.store, name, scope, by="anna", expires=expires)).text

    async def state(self, name: str) -> str:
        (token,) = [token for token in await listed(self.store.read) if token.name == name]
        return token.state


def told(story: Callable[[Office], Awaitable[None]]) -> Callable[[], None]:
    """A test that is told as a story in an office."""

    def test() -> None:
        async def run() -> None:
            office = Office()
            async with office.store:
                await story(office)

        asyncio.run(run())

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    test.__dict__.update(story.__dict__)
    return test


# -- texts -------------------------------------------------------------------------------------------------------------


def test_a_token_is_recognised_by_its_beginning_and_no_two_are_alike() -> None:
    texts = {new_text() for _ in range(1_000)}
    assert len(texts) == 1_000
    assert all(re.fullmatch(r"itn_[0-9a-f]{56}", text) for text in texts)
    assert len({digest_of(text) for text in texts}) == 1_000


def test_what_was_mistyped_or_made_up_is_known_to_be_no_token_without_asking_anybody() -> None:
    text = new_text()
    assert digest_of(text) is not None
    typed = text[:20] + ("0" if text[20] != "0" else "1") + text[21:]
    for wrong in (typed, text[:-1], text + "0", text.upper(), f" {text}", text + "\n", "itn_" + "0" * 56, "", "itn_"):
        assert digest_of(wrong) is None, wrong


# -- create, list, revoke ----------------------------------------------------------------------------------------------


@pytest.mark.spec("Q1", "revoked")
@told
async def test_a_token_is_good_until_it_expires_or_is_revoked_and_listed_after_that(office: Office) -> None:
    assert not await has_tokens(office.store.read)
    await office.token("short", expires="1h")
    await office.token("long")
    assert await has_tokens(office.store.read)
    assert (await office.state("short"), await office.state("long")) == ("good", "good")
    office.pass_by(3_600 * SECOND)
    assert (await office.state("short"), await office.state("long")) == ("expired", "good")
    first = await revoke(office.store, "long", by="boris", reason="lost")
    office.pass_by(SECOND)
    assert await revoke(office.store, "long", by="carla", reason="again") == first
    assert (first.revoked_by, first.reason) == ("boris", "lost")
    assert (await office.state("short"), await office.state("long")) == ("expired", "revoked")
    assert not await has_tokens(office.store.read)


@told
async def test_a_call_that_is_repeated_with_its_text_is_one_token(office: Office) -> None:
    text = new_text()
    first = await create(office.store, "ci", Scope.READ, by="anna", text=text)
    office.pass_by(SECOND)
    assert await create(office.store, "ci", Scope.READ, by="anna", text=text) == first
    with pytest.raises(TokenError, match="no token's text"):
        await create(office.store, "other", Scope.READ, by="anna", text="secret")


@told
async def test_what_cannot_be_a_token_is_refused_with_what_to_choose(office: Office) -> None:
    await office.token("ci")
    with pytest.raises(TokenError, match="there is a token 'ci' already"):
        await office.token("ci")
    await revoke(office.store, "ci", by="anna")
    with pytest.raises(TokenError, match=r"'ci' was revoked at 2027-01-15T08:00:00Z.*like 'ci-2'"):
        await office.token("ci")
    with pytest.raises(TokenError, match="'local' is what the history calls"):
        await office.token("local")
    with pytest.raises(TokenError, match="at most 3650d"):
        await office.token("x", expires="3651d")
    for wrong in ("soon", "0s", "-1h"):
        with pytest.raises(DurationError):
            await office.token("x", expires=wrong)
    for name in ("", " x", "a\nb", "x" * 256, "a\u202eb"):
        with pytest.raises(IdentityError, match="token name"):
            await office.token(name)
    with pytest.raises(TokenError, match="there is no token 'nobody' in memory:"):
        await revoke(office.store, "nobody", by="anna")
    assert [token.name for token in await listed(office.store.read)] == ["ci"]


@pytest.mark.spec("Q1", "expires")
@told
async def test_a_token_expires_after_90_days_unless_its_maker_says_otherwise(office: Office) -> None:
    made = await create(office.store, "ci", Scope.READ, by="anna")
    assert made.token.expires_at is not None
    assert made.token.expires_at - made.token.created_at == timedelta(days=90)
    kept = await create(office.store, "wall", Scope.READ, by="anna", expires=None)
    assert kept.token.expires_at is None


@pytest.mark.spec("Q7", "canary")
@told
async def test_what_is_made_and_what_is_listed_does_not_show_the_text_or_the_hash(office: Office) -> None:
    made = await create(office.store, "ci", Scope.READ, by="anna")
    shown = f"{made!r} {made} {await listed(office.store.read)!r}"
    assert made.text not in shown
    assert str(digest_of(made.text)) not in shown


# -- the book ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("Q1", "revoked")
@told
async def test_a_revoked_token_is_refused_after_a_second_at_the_latest(office: Office) -> None:
    text = await office.token()
    assert FRESH_FOR == SECOND
    assert await office.book.find(text) is not None
    assert await office.book.named("ci") is not None
    await revoke(office.store, "ci", by="anna")
    office.pass_by(FRESH_FOR - 1)
    assert await office.book.find(text) is not None, "as it was known"
    office.pass_by(1)
    assert await office.book.find(text) is None
    assert await office.book.named("ci") is None


@told
async def test_the_store_is_asked_once_in_a_second_however_many_ask(office: Office) -> None:
    text = await office.token()
    for _ in range(100):
        assert await office.book.find(text) is not None
    assert office.asked == 1
    office.pass_by(FRESH_FOR)
    await office.book.find(text)
    assert office.asked == 2


@told
async def test_a_token_expires_by_the_stores_clock_and_not_when_the_book_looks_again(office: Office) -> None:
    text = await office.token(expires="10s")
    office.pass_by(10 * SECOND - 1)
    assert await office.book.find(text) is not None
    office.pass_by(1)
    assert await office.book.find(text) is None
    assert office.asked == 1


@told
async def test_what_is_no_token_costs_the_store_nothing_and_an_unknown_one_is_not_remembered(office: Office) -> None:
    assert await office.book.find("password") is None
    assert office.asked == 0
    unknown = new_text()
    assert await office.book.find(unknown) is None
    await create(office.store, "late", Scope.READ, by="anna", text=unknown)
    assert await office.book.find(unknown) is not None


@told
async def test_a_hash_is_no_token(office: Office) -> None:
    text = await office.token()
    assert await office.book.find(str(digest_of(text))) is None


@told
async def test_while_the_store_is_away_what_was_good_is_stale_for_a_quarter_of_an_hour(office: Office) -> None:
    text = await office.token()
    fresh = await office.book.find(text)
    office.is_away = True
    office.pass_by(FRESH_FOR)
    stale = await office.book.find(text)
    assert isinstance(fresh, ValidToken)
    assert isinstance(stale, ValidToken)
    assert (fresh.is_stale, stale.is_stale) == (False, True)
    with pytest.raises(StoreUnavailable, match="did not answer a moment ago"):
        await office.book.named("ci")
    office.pass_by(STALE_FOR)
    with pytest.raises(StoreUnavailable, match="does not answer"):
        await office.book.find(text)
    office.is_away = False
    office.pass_by(SECOND)
    again = await office.book.find(text)
    assert isinstance(again, ValidToken)
    assert not again.is_stale


@told
async def test_a_stale_token_expires_all_the_same(office: Office) -> None:
    text = await office.token(expires="10s")
    await office.book.find(text)
    office.is_away = True
    office.pass_by(10 * SECOND)
    assert await office.book.find(text) is None


@told
async def test_a_store_that_is_away_is_asked_once_a_second_and_not_by_every_request(office: Office) -> None:
    text = await office.token()
    office.is_away = True
    for _ in range(50):
        with pytest.raises(StoreUnavailable):
            await office.book.find(text)
    assert office.asked == 1
    office.pass_by(SECOND)
    with pytest.raises(StoreUnavailable):
        await office.book.find(text)
    assert office.asked == 2


@told
async def test_only_what_was_good_a_moment_ago_is_known(office: Office) -> None:
    text = await office.token()
    assert not office.book.knows(text)
    await office.book.find(text)
    assert office.book.knows(text)
    assert not office.book.knows(new_text())
    assert not office.book.knows("password")
    await revoke(office.store, "ci", by="anna")
    office.pass_by(FRESH_FOR)
    await office.book.find(text)
    assert not office.book.knows(text)


@told
async def test_the_book_has_an_end(office: Office) -> None:
    text = await office.token()
    for number in range(1_000):
        office.pass_by(1)
        await office.book.find(text)
        await office.book.named(f"nobody {number}")
    assert len(office.book._entries) == 1
