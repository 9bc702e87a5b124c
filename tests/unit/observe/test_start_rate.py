"""The pulse of a node: starts and lateness of each ten seconds, for ten minutes."""

from __future__ import annotations

from itinerary.core.loop.events import OccurrenceStarted
from itinerary.model.occurrence import Kind
from itinerary.model.policies import Recovery
from itinerary.model.rows import JobNumber, Key, Ref
from itinerary.observe.start_rate import BEAT, BEATS, StartRate
from itinerary.schedules.durations import SECOND

AT = 1_800_000_000 * SECOND


def began(at: int, late: int = 0, recovery: Recovery | None = None, kind: Kind = Kind.SCHEDULED) -> OccurrenceStarted:
    return OccurrenceStarted(Ref(1), Key(at - late, JobNumber(1), kind), "etl", at - late, at, recovery)


def test_starts_are_counted_in_the_ten_seconds_in_which_they_were() -> None:
    pulse = StartRate()
    pulse.handle([began(AT), began(AT + 9 * SECOND), began(AT + BEAT)])
    pulse.handle([began(AT + BEAT)])
    beats = pulse.beats(AT + 2 * BEAT)
    assert len(beats) == BEATS
    assert [beat.starts for beat in beats[-3:]] == [0, 2, 2]
    assert [beat.at for beat in beats[-2:]] == [AT, AT + BEAT]


def test_nearly_all_is_the_bound_that_ninety_nine_of_a_hundred_keep() -> None:
    pulse = StartRate()
    pulse.handle([began(AT + SECOND, late=3_000) for _ in range(99)] + [began(AT + SECOND, late=2 * SECOND)])
    assert pulse.beats(AT + BEAT)[-1].late_for == 5_000
    pulse.handle([began(AT + SECOND, late=2 * SECOND) for _ in range(5)])
    assert pulse.beats(AT + BEAT)[-1].late_for == 2_500_000


def test_what_makes_up_for_the_past_is_a_start_and_not_late() -> None:
    pulse = StartRate()
    pulse.handle([began(AT, 3_600 * SECOND, Recovery.EXECUTE_ALL), began(AT, kind=Kind.TRIGGER)])
    assert [(beat.starts, beat.late_for) for beat in pulse.beats(AT + BEAT)[-1:]] == [(2, None)]


def test_what_is_old_is_forgotten_whether_somebody_looks_or_not() -> None:
    pulse = StartRate()
    for number in range(3 * BEATS):
        pulse.handle([began(AT + number * BEAT)] * 200)
    assert len(pulse._starts) <= 2 * BEATS + 1
    assert all(beat.starts == 200 for beat in pulse.beats(AT + 3 * BEATS * BEAT))
    assert len(pulse._starts) <= BEATS
