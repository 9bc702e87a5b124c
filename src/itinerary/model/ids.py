"""Ids that every node computes alike. The race for an occurrence is a race to create the same key.

An id is the UUIDv5 of a namespace, one for each kind of object, and a text:

    job           <name>
    task          <job>/<name>
    occurrence    <job>/scheduled/<unix seconds>             due by the schedule; its recovery is the same occurrence
                  <job>/backfill/<unix seconds>              requested later, where the schedule left no row
                  <job>/trigger/<request key>                requested now
                  <job>/replay/<original>/<number from 1>    an occurrence that runs again
    task run      <occurrence>/<task>
    attempt       <task run>/<number from 1>

Ids inside a text are written as `str(UUID)` writes them, numbers in decimal, everything in UTF-8. Free text comes last,
after parts of fixed width and fixed words, so a slash in a name cannot make two texts equal. Names are compared
character by character: upper and lower case, and two encodings of an accent, are different names.

The instant is the nominal one, in UTC. Moving a job to another zone, or registering it again, does not change the ids
of past occurrences. **The texts above are stored data.** If one changes, every node believes that nothing has ever run.
"""

from typing import Final, NewType
from uuid import UUID, uuid5

from itinerary.errors import IdentityError
from itinerary.model.text import check_name, shown
from itinerary.schedules.durations import SECOND

__all__ = [
    "ATTEMPT_NAMESPACE",
    "JOB_NAMESPACE",
    "OCCURRENCE_NAMESPACE",
    "TASK_NAMESPACE",
    "TASK_RUN_NAMESPACE",
    "AttemptId",
    "IncarnationId",
    "JobId",
    "OccurrenceId",
    "TaskId",
    "TaskRunId",
    "attempt_id",
    "backfill_id",
    "jitter_for",
    "job_id",
    "occurrence_id",
    "replay_id",
    "run_id",
    "task_id",
    "task_run_id",
    "trigger_id",
]

JobId = NewType("JobId", UUID)
TaskId = NewType("TaskId", UUID)
OccurrenceId = NewType("OccurrenceId", UUID)
TaskRunId = NewType("TaskRunId", UUID)
AttemptId = NewType("AttemptId", UUID)
IncarnationId = NewType("IncarnationId", UUID)
"""The id of one start of one node (protocol rule 1): random, so the edge creates it and never this module."""

# Each namespace is uuid5(NAMESPACE_OID, "itinerary/<kind>"), written out because it must never change.
JOB_NAMESPACE: Final = UUID("27c0fbb3-c0d5-5ad7-b8a2-cc0dad86d220")
TASK_NAMESPACE: Final = UUID("ac18950a-6b11-5698-99ce-8d09244dfd10")
OCCURRENCE_NAMESPACE: Final = UUID("0d8ef755-f74b-5f14-bfd4-d74b596739bf")
TASK_RUN_NAMESPACE: Final = UUID("b6ca593f-0b55-5cbe-9f10-bce1a7e0d9b2")
ATTEMPT_NAMESPACE: Final = UUID("e39b8b8c-ccf4-5e69-9291-305dc5323fee")

_NUMBER_MAX: Final = 2**31 - 1
_SPREAD_BITS: Final = 62


def job_id(name: str) -> JobId:
    """Return the id of a job."""
    return JobId(uuid5(JOB_NAMESPACE, check_name("job name", name)))


def task_id(job: JobId, name: str) -> TaskId:
    """Return the id of a task of a job."""
    return TaskId(uuid5(TASK_NAMESPACE, f"{_part(job)}/{check_name('task name', name)}"))


def occurrence_id(job: JobId, instant: int) -> OccurrenceId:
    """Return the id of the occurrence that a schedule makes due, recovered or not.

    Args:
        job: The id of the job.
        instant: The nominal instant in microseconds since the epoch, a whole second.
    """
    return OccurrenceId(uuid5(OCCURRENCE_NAMESPACE, f"{_part(job)}/scheduled/{_unix_seconds(instant)}"))


def backfill_id(job: JobId, instant: int) -> OccurrenceId:
    """Return the id of a backfilled instant that had no row. An instant with a row is replayed instead: `replay_id`."""
    return OccurrenceId(uuid5(OCCURRENCE_NAMESPACE, f"{_part(job)}/backfill/{_unix_seconds(instant)}"))


def trigger_id(job: JobId, request_key: str) -> OccurrenceId:
    """Return the id of a triggered run. The same request, sent twice, is one run."""
    return OccurrenceId(uuid5(OCCURRENCE_NAMESPACE, f"{_part(job)}/trigger/{check_name('request key', request_key)}"))


def replay_id(job: JobId, original: OccurrenceId, number: int) -> OccurrenceId:
    """Return the id of the n-th replay of an occurrence, counted from 1."""
    text = f"{_part(job)}/replay/{_part(original)}/{_counted('replay number', number)}"
    return OccurrenceId(uuid5(OCCURRENCE_NAMESPACE, text))


def task_run_id(occurrence: OccurrenceId, task: TaskId) -> TaskRunId:
    """Return the id of a task of an occurrence."""
    return TaskRunId(uuid5(TASK_RUN_NAMESPACE, f"{_part(occurrence)}/{_part(task)}"))


def attempt_id(task_run: TaskRunId, number: int) -> AttemptId:
    """Return the id of the n-th attempt of a task run, counted from 1."""
    return AttemptId(uuid5(ATTEMPT_NAMESPACE, f"{_part(task_run)}/{_counted('attempt number', number)}"))


def run_id(job_name: str, instant: int) -> str:
    """Return the run id that people see: `backup:1767225600`. Seconds follow the last colon.

    A replay has a suffix after the seconds, to differ from its original: see `Key.run_id`.
    """
    return f"{check_name('job name', job_name)}:{_unix_seconds(instant)}"


def jitter_for(identity: OccurrenceId | AttemptId, jitter_max: int) -> int:
    """Return a delay in microseconds, at least 0 and below `jitter_max` (0 if that is 0).

    Every node gets the same delay.

    The delay is derived from the id, which is a hash, so it is spread evenly over many ids.
    """
    if jitter_max < 0:
        raise IdentityError(f"jitter {shown(jitter_max)} is negative; give 0 or more microseconds")
    return (_part(identity).int & ((1 << _SPREAD_BITS) - 1)) * jitter_max >> _SPREAD_BITS


def _part(identity: object) -> UUID:
    if not isinstance(identity, UUID):
        raise IdentityError(f"{shown(identity)} is not an id; give the UUID that this module made")
    return identity


def _unix_seconds(instant: object) -> int:
    if isinstance(instant, bool) or not isinstance(instant, int):
        raise IdentityError(f"instant {shown(instant)} is not a whole number of microseconds since the epoch")
    if not -(2**63) <= instant < 2**63:
        raise IdentityError(f"instant {shown(instant)} is outside the range of 64 bits")
    if instant % SECOND:
        raise IdentityError(f"instant {instant} is not a whole second; instants are multiples of {SECOND} microseconds")
    return instant // SECOND


def _counted(what: str, number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _NUMBER_MAX:
        raise IdentityError(f"{what} {shown(number)} is not a whole number from 1 to {_NUMBER_MAX}")
    return number
