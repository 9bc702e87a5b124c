"""The transition table, against a transcription of SPEC O1 that shares nothing with it."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.errors import IllegalTransition
from itinerary.model.states import (
    CREATED_AS,
    FINAL,
    TASK_FINAL,
    TRANSITIONS,
    OccurrenceState,
    TaskState,
    advance,
    mermaid,
    shown_state,
)

NOT_FINAL = [
    "prerun",
    "queued",
    "pending",
    "condition_pending",
    "condition_running",
    "action_pending",
    "action_running",
    "container_creating",
    "running",
    "terminating",
    "retrying",
]
ENDS = [
    "completed",
    "completed_with_errors",
    "failed",
    "failed_stale",
    "cancelled",
    "orphaned",
    "skipped",
    "missed",
]
EVERY_STATE = NOT_FINAL + ENDS

SPEC_TABLE = """
prerun             -> pending queued skipped missed
queued             -> pending skipped
pending            -> condition_pending container_creating running queued
condition_pending  -> condition_running
condition_running  -> action_pending container_creating running
action_pending     -> action_running
action_running     -> condition_pending container_creating running skipped
container_creating -> running terminating retrying
running            -> container_creating terminating retrying completed completed_with_errors failed_stale
terminating        -> completed completed_with_errors retrying failed_stale
retrying           -> pending
"""
LEGAL = {
    (left.strip(), new)
    for line in SPEC_TABLE.strip().splitlines()
    for left, _, right in [line.partition("->")]
    for new in right.split()
} | set(product(NOT_FINAL, ["failed", "cancelled", "orphaned"]))


@pytest.mark.spec("O1", "states")
def test_the_states_are_those_of_the_specification() -> None:
    assert [state.value for state in OccurrenceState] == EVERY_STATE
    assert {state.value for state in FINAL} == set(ENDS)


@pytest.mark.spec("O1", "table")
@pytest.mark.parametrize("current", EVERY_STATE)
@pytest.mark.parametrize("new", EVERY_STATE)
def test_every_pair_of_states_is_legal_or_refused_as_the_specification_says(current: str, new: str) -> None:
    before, after = OccurrenceState(current), OccurrenceState(new)
    if (current, new) in LEGAL:
        assert advance(before, after) is after
    else:
        with pytest.raises(IllegalTransition) as refused:
            advance(before, after)
        assert current in str(refused.value)
        assert new in str(refused.value)


@pytest.mark.spec("O1", "created as")
@pytest.mark.parametrize("new", EVERY_STATE)
def test_a_row_is_created_as_prerun_queued_skipped_or_missed_only(new: str) -> None:
    if new in {"prerun", "queued", "skipped", "missed"}:
        assert advance(None, OccurrenceState(new)) == new
    else:
        with pytest.raises(IllegalTransition, match=f"created as {new}; allowed: prerun, queued, skipped, missed"):
            advance(None, OccurrenceState(new))
    assert sorted(CREATED_AS) == ["missed", "prerun", "queued", "skipped"]


@pytest.mark.spec("O1", "table")
def test_a_refusal_names_both_states_and_what_is_allowed() -> None:
    with pytest.raises(
        IllegalTransition, match="from retrying to running; allowed: pending, failed, cancelled, orphaned"
    ):
        advance(OccurrenceState.RETRYING, OccurrenceState.RUNNING)
    with pytest.raises(IllegalTransition, match="from orphaned to completed: orphaned is final"):
        advance(OccurrenceState.ORPHANED, OccurrenceState.COMPLETED)


@pytest.mark.spec("O1", "restored by an update")
@pytest.mark.parametrize(("current", "new"), list(product(EVERY_STATE, EVERY_STATE)))
def test_an_update_may_restore_what_was_cancelled_and_nothing_else(current: str, new: str) -> None:
    before, after = OccurrenceState(current), OccurrenceState(new)
    if (current, new) in LEGAL | {("cancelled", "prerun")}:
        assert advance(before, after, by_update=True) is after
    else:
        with pytest.raises(IllegalTransition):
            advance(before, after, by_update=True)


@pytest.mark.spec("O1", "table")
def test_every_state_can_be_reached_and_every_unfinished_one_can_end() -> None:
    reached, edge = set(CREATED_AS), set(CREATED_AS)
    while edge:
        edge = {new for state in edge for new in TRANSITIONS[state]} - reached
        reached |= edge
    assert reached == set(OccurrenceState)
    assert all(bool(TRANSITIONS[state] & FINAL) != (state in FINAL) for state in OccurrenceState)


@pytest.mark.spec("D2", "task states")
def test_task_runs_and_attempts_have_their_own_states() -> None:
    expected = ["pending", "running", "success", "failed", "timeout", "cancelled", "skipped"]
    assert [state.value for state in TaskState] == expected
    assert sorted(TASK_FINAL) == ["cancelled", "failed", "skipped", "success", "timeout"]


@pytest.mark.spec("O8", "several tasks")
@pytest.mark.parametrize("more", [True, False])
@pytest.mark.parametrize(
    ("tasks", "shown"),
    [
        ("running", "running"),
        ("retrying running", "running"),
        ("container_creating running retrying", "running"),
        ("retrying container_creating", "container_creating"),
        ("retrying retrying", "retrying"),
        ("terminating retrying", "retrying"),
        ("terminating running", "running"),
        ("", "running"),
    ],
)
def test_an_occurrence_of_several_tasks_shows_the_liveliest(tasks: str, shown: str, more: bool) -> None:
    assert shown_state([OccurrenceState(task) for task in tasks.split()], more=more) == shown


@pytest.mark.spec("O8", "several tasks")
def test_it_is_terminating_only_when_nothing_is_to_follow() -> None:
    assert shown_state([OccurrenceState.TERMINATING], more=False) is OccurrenceState.TERMINATING
    assert shown_state([OccurrenceState.TERMINATING], more=True) is OccurrenceState.RUNNING


@pytest.mark.spec("O8", "several tasks")
@pytest.mark.parametrize(
    "state", sorted(set(EVERY_STATE) - {"running", "container_creating", "retrying", "terminating"})
)
def test_a_state_that_no_task_in_flight_can_have_is_refused(state: str) -> None:
    with pytest.raises(IllegalTransition, match=f"never {state}"):
        shown_state([OccurrenceState(state)], more=False)


NEXT_OF_A_TASK = {
    "to come": ["container_creating", "running"],
    "container_creating": ["running", "terminating", "retrying"],
    "running": ["terminating", "retrying", "done"],
    "terminating": ["retrying", "done"],
    "retrying": ["container_creating", "running"],
    "done": [],
}


@pytest.mark.spec("O8", "several tasks")
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=60), st.integers(1, 4))
def test_what_is_shown_only_ever_changes_along_the_table(steps: list[tuple[int, int]], count: int) -> None:
    tasks = ["to come"] * count
    current = OccurrenceState.PENDING
    for which, choice in steps:
        options = NEXT_OF_A_TASK[tasks[which % count]]
        if not options:
            continue
        tasks[which % count] = options[choice % len(options)]
        if set(tasks) == {"done"}:
            break
        in_flight = [OccurrenceState(task) for task in tasks if task not in {"to come", "done"}]
        shown = shown_state(in_flight, more="to come" in tasks)
        if current is OccurrenceState.RETRYING and shown is not current:
            current = advance(current, OccurrenceState.PENDING)
        if shown is not current:
            current = advance(current, shown)


@pytest.mark.spec("O1", "picture")
def test_the_picture_shows_every_transition_once() -> None:
    drawn = mermaid().splitlines()
    assert drawn[0] == "stateDiagram-v2"
    assert len(drawn) == len(set(drawn))
    arrows = {tuple(line.strip().split(" --> ")) for line in drawn[1:]}
    expected = {pair for pair in LEGAL if pair[1] not in {"failed", "cancelled", "orphaned"}}
    expected |= {("not_final", new) for new in ("failed", "cancelled", "orphaned")}
    expected |= {("[*]", new) for new in ("prerun", "queued", "skipped", "missed")}
    expected |= {(end, "[*]") for end in ENDS} | {("cancelled", "prerun: by an update")}
    assert arrows == expected
