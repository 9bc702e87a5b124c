"""The same expressions against cronsim 2.8 and croniter 6.2.4, the two best libraries.

They read less than we do, so each is asked what it accepts. Where it disagrees, the reason must be known: a choice of
ours that the requirements state, or a fault of theirs that has a name and a test of its own in test_library_defects.py.
A disagreement that nobody can explain fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from itinerary.errors import ScheduleError
from itinerary.schedules import cron
from tests.oracles import croniter_explained, cronsim_explained
from tests.oracles.dice import FUZZ_SEED
from tests.oracles.libraries import Answer, Question, ask_croniter, ask_cronsim, question_about
from tests.oracles.model import EPOCH, Table, seconds_since_epoch
from tests.oracles.plan import BATCH_SIZE, COUNTS, batches, scenes_and_cases
from tests.oracles.zones import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.oracles.scenes import Case, Scene

BATCHES = batches(COUNTS.items())
LIBRARIES: dict[
    str, tuple[Callable[[Question], Answer | None], Callable[[Question, Answer, Table], tuple[str, ...]]]
] = {
    "cronsim": (ask_cronsim, cronsim_explained.explain),
    "croniter": (ask_croniter, croniter_explained.explain),
}


def ours(text: str, scene: Scene) -> list[int] | None:
    """None if the expression can never fire; test_fuzz.py makes sure that nothing else is refused."""
    try:
        schedule = cron(text, tz=scene.key)
    except ScheduleError:
        return None
    return [seconds_since_epoch(at) for at in schedule.between(scene.start, scene.end)]


def compare(scenes: Iterable[tuple[Scene, list[Case]]]) -> dict[str, Counter[str]]:
    """Put the expressions of some scenes to the libraries, and count how it came out."""
    outcomes: dict[str, Counter[str]] = {name: Counter() for name in LIBRARIES}
    for scene, cases in scenes:
        table: Table | None = None
        for case in cases:
            instants = ours(case.text, scene)
            question = question_about(case.text, scene, instants or [])
            for name, (ask, explain) in LIBRARIES.items():
                answer = ask(question) if instants is not None else None
                if instants is None or answer is None:
                    outcomes[name]["not asked"] += 1
                elif is_agreement(question, answer, instants):
                    outcomes[name]["agreed"] += 1
                else:
                    table = table or scene.lay_out()
                    reasons = explain(question, answer, table)
                    outcomes[name]["explained" if reasons else "unexplained"] += 1
                    if not reasons:
                        report(name, question, answer, instants)
    return outcomes


def is_agreement(question: Question, answer: Answer, instants: list[int]) -> bool:
    return not answer.is_endless and answer.instants == question.within(instants, len(answer.instants))


def report(name: str, question: Question, answer: Answer, instants: list[int]) -> None:
    wanted = question.within(instants, len(answer.instants))
    lines = [f"an unexplained disagreement with {name}{', which never returns' if answer.is_endless else ''}"]
    lines += [f"  {question.text!r} in {question.scene.key}  FUZZ_SEED={FUZZ_SEED}"]
    lines += [f"  after {question.after}, before {question.scene.end}"]
    lines += [f"  only theirs {EPOCH + at * SECOND}" for at in sorted(set(answer.instants) - set(wanted))[:5]]
    lines += [f"  only ours   {EPOCH + at * SECOND}" for at in sorted(set(wanted) - set(answer.instants))[:5]]
    pytest.fail("\n".join(lines), pytrace=False)


@pytest.mark.spec("S1", "S2", "S8")
@pytest.mark.parametrize(("key", "batch", "size"), BATCHES, ids=str)
def test_every_disagreement_with_the_libraries_has_a_known_reason(key: str, batch: int, size: int) -> None:
    for outcome in compare(scenes_and_cases(key, batch, size)).values():
        assert outcome.total() == size
        assert outcome["unexplained"] == 0
        assert size < BATCH_SIZE or outcome["not asked"] * 2 <= size, "most expressions should be put to the test"
