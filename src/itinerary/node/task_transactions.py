"""The transaction of a task (D6): the loop grants the occurrence's next write to the store.

    the loop                                   here                                   the store
    everything before it is written   ◄── TransactionOpened
    WriteGrant(success, failure)      ──►      transaction(success, failure)   ──►    statements, success, COMMIT
    resumes its writes                ◄── TransactionEnded(committed, writes)

Exactly one side writes at any time: during the grant the loop holds back its writes of this occurrence. So the end is
always reported, with one of three results: committed, not committed, or not committed and the store wrote the failure
instead, which is a separate write (protocol rule 24).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from itinerary.core.loop.messages import Message, TransactionEnded, TransactionOpened
from itinerary.core.loop.replies import RequestReply, WriteGrant
from itinerary.errors import CommitInDoubt, TransactionError
from itinerary.model.attempts import AttemptKey
from itinerary.ports import Store, TaskTransaction
from itinerary.runtime.node import Node

__all__ = ["transaction_factory"]


def transaction_factory(
    store: Store, node: Callable[[], Node]
) -> Callable[[AttemptKey, float], AbstractAsyncContextManager[TaskTransaction]]:
    """Return the function that opens the transaction of a task. `node` is called then: it does not exist yet."""

    @asynccontextmanager
    async def transaction(attempt: AttemptKey, timeout: float) -> AsyncIterator[TaskTransaction]:  # noqa: ASYNC109 - the store's
        here = node()
        loan = await _borrow(here, attempt)
        assert here.number is not None, "a node that runs tasks has joined"
        committed, writes = False, 0
        try:
            async with store.transaction(here.number, loan.success, loan.failure, timeout=timeout) as opened:
                yield opened
            committed, writes = True, 1
        except TransactionError as error:
            writes = 1 if isinstance(error.__cause__, CommitInDoubt) else 0
            raise
        finally:
            await _notify(here, TransactionEnded(attempt, committed, writes))

    return transaction


async def _borrow(node: Node, attempt: AttemptKey) -> WriteGrant:
    def opened(reply: asyncio.Future[WriteGrant | RequestReply]) -> Message:
        return TransactionOpened(attempt, reply)

    answer = await node.ask(opened)
    if isinstance(answer, RequestReply):
        raise TransactionError(f"no transaction for this attempt: {answer.why}")
    return answer


async def _notify(node: Node, ended: TransactionEnded) -> None:
    """Return the grant, even if the task is being cancelled. Until then no write of its occurrence can happen."""
    telling = asyncio.ensure_future(node.inbox.deliver(ended))
    try:
        await asyncio.shield(telling)
    except asyncio.CancelledError:
        await telling
        raise
