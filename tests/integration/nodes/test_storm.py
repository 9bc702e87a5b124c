"""Several nodes in a storm: nothing is lost, nothing starts twice, and everything says why."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.integration.nodes.storm import Plan, raise_storm
from tests.integration.stores.scale import IS_FULL, SEED
from tests.servers import PostgresServer

QUICK: Final = Plan(
    nodes=3,
    jobs=600,
    meets_for=3,
    calm_for=8,
    blows_for=20,
    every=5,
    frozen_for=9,
    cut_for=7,
    restarts=1,
    settles_for=10,
    settings={
        "node_heartbeat_interval": "1s",
        "orchestrator_heartbeat_interval": "2s",
        "grace_period": "6s",
        "pre_schedule_interval": "3s",
        "shutdown_grace_period": "10s",
        "kill_grace": "1s",
    },
    seed=SEED,
)
FULL: Final = Plan(
    nodes=5,
    jobs=2_000,
    meets_for=15,
    calm_for=60,
    blows_for=600,
    every=20,
    frozen_for=45,
    cut_for=45,
    restarts=2,
    settles_for=60,
    settings={},
    seed=SEED,
)
"""Ten minutes, with the settings as they are by default."""


@pytest.mark.spec("N1")
@pytest.mark.spec("N2", "storm")
@pytest.mark.spec("N3", "storm")
@pytest.mark.spec("N5", "storm")
def test_in_a_storm_nothing_is_lost_and_nothing_starts_twice(postgres_server: PostgresServer, tmp_path: Path) -> None:
    plan = FULL if IS_FULL else QUICK
    outcome = raise_storm(postgres_server, tmp_path, plan)
    told = f"{outcome.troubles}\n{outcome.audit}\n{outcome.log}"
    print(f"{len(outcome.begun)} attempts; shares {dict(outcome.shares)}; {outcome.audit}")
    assert outcome.audit_code == 0, told
    twice = {what: count for what, count in Counter(one[:3] for one in outcome.begun).items() if count > 1}
    assert not twice, f"{twice}\n{told}"
    assert not outcome.unknown, told
    assert outcome.exits == [0] * plan.nodes, told
    even = sum(outcome.shares.values()) / plan.nodes
    assert all(0.8 * even <= outcome.shares[f"node{number}"] <= 1.2 * even for number in range(plan.nodes)), told
