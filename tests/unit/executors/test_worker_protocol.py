"""What the pool and its workers say to each other, and what becomes of nonsense."""

from __future__ import annotations

import asyncio
import socket
import struct

import msgspec
import pytest

from itinerary.executors.worker_protocol import (
    FRAME_MAX,
    Answer,
    AnswerStatus,
    Called,
    CallRequest,
    WorkerConnection,
    receive,
    send,
)
from itinerary.model.attempts import AttemptKey, ZoneSpan
from itinerary.model.rows import Ref
from itinerary.schedules import packaged_zone
from tests.contracts.executors.stage import PATIENCE, facts, until

ZONES = (ZoneSpan(0, 1_000_000, {"Europe/Berlin": packaged_zone("Europe/Berlin").to_json()}),)
RUN = CallRequest(
    "jobs:work",
    AttemptKey(Ref(1), 0, 1),
    facts(schedule={"every": "15m"}, zones=ZONES),
    ("jobs",),
    {"jobs": "jobs.py"},
)


class End:
    """The pool's end of a line, and what it was told."""

    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair()
        self.answers: list[Answer | Called] = []
        self.losses = 0
        self.line = WorkerConnection(asyncio.get_running_loop(), ours, self.answers.append, self.lost)

    def lost(self) -> None:
        self.losses += 1

    def close(self) -> None:
        self.line.close()
        self.theirs.close()


def test_a_request_and_its_answer_arrive_as_they_were_sent() -> None:
    async def story() -> None:
        end = End()
        end.line.send(RUN)
        assert await asyncio.to_thread(receive, end.theirs) == RUN
        answer = Answer(AnswerStatus.FAILED, error="no", names=("KeyError",))
        send(end.theirs, answer)
        send(end.theirs, answer)
        await until(lambda: len(end.answers) == 2)
        assert end.answers == [answer, answer]
        end.close()

    asyncio.run(story())


def test_a_request_longer_than_the_sockets_buffer_waits_for_room() -> None:
    async def story() -> None:
        end = End()
        long = msgspec.structs.replace(RUN, facts=facts(job="x" * 3_000_000))
        end.line.send(long)
        end.line.send(RUN)
        assert await asyncio.to_thread(receive, end.theirs) == long
        assert await asyncio.to_thread(receive, end.theirs) == RUN
        end.close()

    asyncio.run(story())


def test_a_message_that_is_too_long_is_refused_where_it_is_made() -> None:
    async def story() -> None:
        end = End()
        with pytest.raises(ValueError, match="too long for a worker"):
            end.line.send(msgspec.structs.replace(RUN, facts=facts(job="x" * (FRAME_MAX + 1))))
        end.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    "nonsense",
    [struct.pack(">I", FRAME_MAX + 1), struct.pack(">I", 3) + b"abc", struct.pack(">I", 0), b"\xff" * 100],
    ids=["too long", "no message", "empty", "noise"],
)
def test_nonsense_is_the_end_of_the_line(nonsense: bytes) -> None:
    async def story() -> None:
        end = End()
        end.theirs.sendall(nonsense)
        async with asyncio.timeout(PATIENCE):
            await until(lambda: end.losses)
        send_again = Answer(AnswerStatus.SUCCEEDED)
        with pytest.raises(OSError, match="Broken pipe"):
            send(end.theirs, send_again)
        assert (end.answers, end.losses) == ([], 1)
        end.close()

    asyncio.run(story())


def test_an_end_in_the_middle_of_a_frame_is_an_end() -> None:
    async def story() -> None:
        end = End()
        end.theirs.sendall(struct.pack(">I", 50) + b"abc")
        end.theirs.close()
        await until(lambda: end.losses)
        assert end.answers == []
        end.close()

    asyncio.run(story())


def test_a_worker_without_a_pool_hears_so() -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(b"\0\0")
    ours.close()
    with theirs:
        assert receive(theirs) is None
