"""Several nodes in a storm: nothing is lost, nothing starts twice, and everything says why."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.integration.nodes.storm import Outcome, Plan, raise_storm
from tests.integration.stores.scale import IS_FULL, SEED
from tests.servers import PostgresServer

QUICK: Final = Plan(
    nodes=3,
    jobs=600,
    meets_for=3,
    calm_for=8,
    blows_for=20,
    every=5,
    kinds=("kill", "freeze", "cut"),
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
FULL: Final = QUICK._replace(
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
)
"""Ten minutes, with the settings as they are by default."""

NETWORK: Final = ("drop", "commit", "silence", "half_open", "backends", "stall", "terminate", "delay")
QUICK_NETWORK: Final = QUICK._replace(jobs=300, blows_for=40, every=5, kinds=NETWORK, restarts=0)
FULL_NETWORK: Final = FULL._replace(
    nodes=3, jobs=600, every=12, kinds=(*NETWORK, "kill"), frozen_for=45, cut_for=30, restarts=1
)
"""Ten minutes of a bad network, with the settings as they are by default."""

SLACK: Final = 10.0
"""Seconds more for a machine that is busy with something else: the deadline is kept by the node's own clock."""


def assert_true(outcome: Outcome, plan: Plan) -> None:
    """Nothing is lost, doubled or told otherwise than it was."""
    judgement = outcome.judgement
    told = f"{outcome.troubles}\n{outcome.audit}\n{judgement.states} {judgement.causes}\n{outcome.log}"
    print(
        f"{len(outcome.begun)} attempts; {dict(judgement.states)}; explained {dict(judgement.causes)};"
        f" {len(outcome.ended_after)} SIGTERMs, the slowest {max(outcome.ended_after):.1f} s; {outcome.audit}"
    )
    assert outcome.audit_code == 0, told
    assert not judgement.doubled, f"{judgement.doubled[:20]}\n{told}"
    assert not judgement.unknown, f"{judgement.unknown[:20]}\n{told}"
    assert not judgement.untrue, "\n".join([*judgement.untrue[:40], told])
    assert set(outcome.exits) <= {0, 3}, f"{outcome.exits}\n{told}"  # 3: its store did not answer, and it says so
    assert max(outcome.ended_after) <= plan.ends_within + SLACK, f"{sorted(outcome.ended_after)[-5:]}\n{told}"


@pytest.mark.spec("N1")
@pytest.mark.spec("N2", "storm")
@pytest.mark.spec("N3", "storm")
@pytest.mark.spec("N5", "storm")
def test_in_a_storm_nothing_is_lost_and_nothing_starts_twice(postgres_server: PostgresServer, tmp_path: Path) -> None:
    plan = FULL if IS_FULL else QUICK
    outcome = raise_storm(postgres_server, tmp_path, plan)
    assert_true(outcome, plan)
    assert outcome.exits == [0] * plan.nodes, outcome.log
    even = sum(outcome.shares.values()) / plan.nodes
    assert all(0.8 * even <= outcome.shares[f"node{number}"] <= 1.2 * even for number in range(plan.nodes)), (
        outcome.shares
    )


@pytest.mark.spec("N2", "network")
@pytest.mark.spec("N5", "network")
@pytest.mark.spec("R9", "network")
def test_a_network_that_lies_loses_and_doubles_nothing_and_every_sigterm_is_obeyed(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    plan = FULL_NETWORK if IS_FULL else QUICK_NETWORK
    assert_true(raise_storm(postgres_server, tmp_path, plan), plan)
