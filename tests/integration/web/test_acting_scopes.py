"""Who may act: who may read changes nothing, who may operate removes nothing, and each leaves their name (Q1, Q2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from itinerary import Itinerary, every
from itinerary.model.ids import job_id
from itinerary.model.queries import EntriesQuery
from itinerary.model.scopes import Scope
from itinerary.operations.tokens import create
from itinerary.stores.urls import open_store
from itinerary.web.actions.definitions import ACTIONS, TargetKind
from tests.integration.web.visiting import FORM, Visitor, run, visiting


def _work() -> None: ...


@pytest.mark.spec("Q1", "scopes of actions")
@pytest.mark.spec("Q2", "every change is recorded with a name")
def test_an_action_needs_its_scope_and_is_kept_with_the_name_of_the_token(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = Itinerary(store=url, name="here")
    app.job("daily", every("24h")).task(_work)
    address = {
        what: f"/actions/{what}?job={job_id('daily')}" for what, one in ACTIONS.items() if one.about is TargetKind.JOB
    }

    async def asked(visitor: Visitor, token: str, what: str, key: str = "0" * 32) -> tuple[int, int]:
        """What somebody is answered who opens the form, and who sends it without opening it."""
        headers = {"Accept": "text/html", "Authorization": f"Bearer {token}"}
        form = await visitor.client.get(address[what], headers=headers)
        sent = {**headers, "Content-Type": FORM}
        done = await visitor.client.post(address[what], content=f"key={key}", headers=sent)
        return form.status_code, done.status_code

    async def program() -> None:
        async with visiting(app) as visitor:
            async with open_store(url) as store:
                tokens = {scope: (await create(store, f"{scope} ada", scope, by="root")).text for scope in Scope}
            for what in address:
                assert await asked(visitor, tokens[Scope.READ], what) == (403, 403)
            assert await asked(visitor, tokens[Scope.OPERATE], "remove") == (403, 403)
            assert await asked(visitor, tokens[Scope.OPERATE], "pause") == (200, 303)
            assert await asked(visitor, tokens[Scope.ADMIN], "remove") == (200, 400), "the key was that of the pause"
            assert await asked(visitor, tokens[Scope.ADMIN], "remove", "1" * 32) == (200, 303)
            async with open_store(url) as store:
                entries = [row for row in await store.read(EntriesQuery(0)) if row.kind not in {"version", "zone"}]
            assert [(row.kind.value, row.entered_by) for row in entries] == [
                ("pause", "operate ada"),
                ("remove", "admin ada"),
            ]

    run(program())
