"""Protocol rule 25: a person's request is durable, and then a message says that it is there. The message must not get
lost.

A node throws away the mail that it has seen, and then reads the rows that it was about. In that order nothing is
missed, as long as somebody who writes again, and finds mail about the same row there already, does not rely on mail
that is being thrown away: it has to be held on to until the request that it is about can be read.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from itinerary.model.queries import ByRefQuery
from itinerary.model.rows import OccurrenceRow
from itinerary.model.writes import AdjustRequest, CancelRequest, Written
from itinerary.stores.store import EngineStore
from tests.integration.protocol.scene import Scene
from tests.integration.protocol.sessions import THE_END


def test_mail_that_is_written_unless_it_is_there_is_lost_when_it_is_thrown_away_meanwhile(scene: Scene) -> None:
    person, node = scene.plain("person"), scene.plain("node")
    person.do("CREATE TABLE requests (id int PRIMARY KEY, cancelled boolean NOT NULL)")
    person.do("CREATE TABLE mail (id int PRIMARY KEY)")
    person.do("INSERT INTO requests VALUES (1, false)")
    person.do("INSERT INTO mail VALUES (1)")  # about something else, earlier
    person.do("BEGIN")
    person.do("UPDATE requests SET cancelled = true")
    person.do("INSERT INTO mail VALUES (1) ON CONFLICT DO NOTHING")
    node.do("DELETE FROM mail")
    assert node.one("SELECT cancelled FROM requests") is False
    person.do("COMMIT")
    assert node.do("SELECT * FROM mail") == [], "nobody will look again"
    assert node.one("SELECT cancelled FROM requests") is True, "at what is to be cancelled"


@pytest.mark.spec("L12")
@pytest.mark.spec("O5")
def test_who_throws_mail_away_waits_for_a_request_that_relies_on_it_and_then_sees_it(scene: Scene) -> None:
    desk = scene.desk()
    owner, job = scene.do(desk.node()), scene.do(desk.job())
    claimed = scene.do(desk.due(owner, job))
    assert scene.do(desk.store.control(None, [AdjustRequest(claimed.ref, "{}")])) == [Written(claimed.ref)]
    scene.do(desk.started(owner, replace(claimed, adjustments=1)))
    assert scene.do(desk.store.beat(owner)).mail == (claimed.ref,)

    async def throw_away_and_look(store: EngineStore) -> OccurrenceRow:
        beat = await store.beat(owner, [claimed.ref])
        assert beat.mail == ()
        return (await store.read(ByRefQuery((claimed.ref,))))[claimed.ref]

    person = scene.session("person", lambda store: store.control(None, [CancelRequest(claimed.ref, "anna")]))
    node = scene.session("node", throw_away_and_look)
    person.until(THE_END)
    node.until_it_waits()
    assert person.finish() == [Written(claimed.ref)]
    assert node.finish().cancelled_by == "anna"
