"""Alerts: notify people of a failure, of a run that did not happen, and of the recovery (U12).

    every node          scheduler events ──► problems ──► the log of incidents (a stream in the store)
    one node, by lease  finds runs that have not started, and successes that close an incident;
                        sends each alert to each receiver, in order, and retries until it arrives

Alerts do not delay scheduling: the engine only sets problems aside, and a separate task does the rest. The log survives
the node: the next holder of the lease continues. An alert may arrive twice if the answer was lost. Its id is the same.

Failures: a receiver that does not answer is retried with growing waits for a day. Store calls are retried after an
outage. If too many jobs are in trouble at once, the surplus is counted and logged.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from itinerary.core.loop.events import FellBehind, OccurrenceDecided, OccurrenceEnded, OccurrenceStarted, SchedulerEvent
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError, StoreError
from itinerary.model.config import EffectiveConfig
from itinerary.model.events import Lease, NewEvent
from itinerary.model.heartbeat import has_died
from itinerary.model.ids import job_id
from itinerary.model.occurrence import Kind
from itinerary.model.overload import OverloadExtent
from itinerary.model.queries import ByKeyQuery, DetailsQuery, EventsQuery, HistoryQuery, JobsByNameQuery, NodesQuery
from itinerary.model.rows import AttemptRow, JobNumber, Key, NodeNumber, NodeRow, OccurrenceRow
from itinerary.model.settings import Settings
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.writes import Refusal
from itinerary.observe.incidents import ALERTS_STREAM, Alert, AlertKind, Delivered, Incidents, delivery, seen
from itinerary.observe.overdue import Elsewhere, OverdueInstant, here
from itinerary.observe.store_status import StoreStatusReader
from itinerary.observe.webhooks import AlertSender, DeliveryFailed, Receiver
from itinerary.ports import Clock, Store
from itinerary.schedules.durations import SECOND, format_duration
from itinerary.schedules.instants import shown_instant

__all__ = ["GIVE_UP_AFTER", "WENT_WRONG", "Alerts"]

WENT_WRONG: Final = frozenset({OccurrenceState.FAILED, OccurrenceState.FAILED_STALE, OccurrenceState.ORPHANED})
GIVE_UP_AFTER: Final = 86_400 * SECOND
"""The time for which delivery of an alert is retried."""
_TURN: Final = 1.0
_LOOK_INTERVAL: Final = 5 * SECOND
"""The interval of reading the log and of searching for runs that have not started."""
_LEASE: Final = 60 * SECOND
_LATE_MIN: Final = SECOND
"""A smaller start lateness is ignored: no setting allows less."""
_TROUBLE_MAX: Final = 10_000
"""The maximum number of new problems at once, by job and kind."""
_PAGE: Final = 1_000
_ASKED_AT_ONCE: Final = 100
"""The number of jobs whose recovery is checked in one turn."""
_OWED_MAX: Final = 1_000
"""The maximum number of alerts that wait for one receiver. Of more, the oldest are given up."""
_DELIVER_FOR: Final = 10 * SECOND
_FIRST_WAIT: Final = SECOND
_LONGEST_WAIT: Final = 300 * SECOND
_DECISIVE: Final = WENT_WRONG | {OccurrenceState.COMPLETED}
_END_TIMEOUT: Final = 5.0
_OUTPUT_LINES: Final = 20
_OUTPUT_MAX: Final = 2_000
"""The maximum lines and characters of a task's output in an alert."""
_FAILED_ATTEMPTS: Final = frozenset({TaskState.FAILED, TaskState.TIMEOUT})
_DEAD_FOR: Final = 3_600 * SECOND
"""The maximum age of a node's death for an alert."""


class _Trouble(NamedTuple):
    """A problem of a job."""

    kind: AlertKind
    job: str
    key: Key
    outcome: OccurrenceState | None
    at: int
    why: str
    late_by: int | None = None
    """The start lateness, for a late run."""


class Alerts:
    """The alerts of one node. Used on the engine's loop only."""

    def __init__(  # noqa: PLR0913 - all parts of a node that alerts need
        self,
        store: Store,
        node: NodeNumber,
        name: str,
        clock: Clock,
        *,
        timeline: Callable[[], Timeline],
        settings: Settings,
        webhook: AlertSender,
        receivers: Sequence[Receiver],
        hide: Callable[[str], str],
        log: Any,
        elsewhere: Elsewhere = here,
    ) -> None:
        """Create the alerts of a node.

        Args:
            store: The store with the log of incidents.
            node: The number of this node.
            name: The name of this node.
            clock: The clock of the node.
            timeline: Returns the timeline as the node knows it.
            settings: The settings of the node.
            webhook: Sends the alerts.
            receivers: The receivers of the alerts.
            hide: Removes secrets from a text.
            log: The logger.
            elsewhere: Runs a long computation outside the loop.
        """
        self._store, self._node, self._name, self._clock, self._log = store, node, name, clock, log
        self._timeline, self._settings, self._hide = timeline, settings, hide
        self._webhook, self._receivers = webhook, {receiver.name: receiver for receiver in receivers}
        self._lookout = StoreStatusReader(store.read, timeline, settings.node_heartbeat_interval, elsewhere=elsewhere)
        self._incidents = Incidents()
        self._trouble: dict[tuple[str, AlertKind], _Trouble] = {}
        self._held: dict[tuple[str, AlertKind], _Trouble] = {}
        """Problems that came while an incident was open. If an earlier success closes it, they open a new one."""
        self._left_out = 0
        self._behind: OverloadExtent | None = None
        """How far this node is behind; None: not behind."""
        self._lease: Lease | None = None
        self._looked_at = -_LOOK_INTERVAL
        self._waits: dict[tuple[str, str], tuple[int, int]] = {}
        """The number of tries and the time of the next, by alert and receiver."""
        self._asked: dict[str, None] = {}
        """Jobs whose recovery was checked in this round."""
        self._dead: set[NodeNumber] = set()
        """Dead nodes that are already reported."""
        self._is_away = False
        self.counts: Counter[str] = Counter({"delivered": 0, "retried": 0, "given_up": 0})
        """The results of deliveries from this node."""

    # -- events of the node ------------------------------------------------------------------------------------------

    def handle(self, news: Sequence[SchedulerEvent]) -> None:
        """Set aside the problems among the scheduler events. Called on the engine's loop."""
        for item in news:  # tens of thousands may come in a second, and almost none is a problem
            if type(item) is OccurrenceEnded or type(item) is OccurrenceDecided:
                if item.outcome in WENT_WRONG:
                    self._note(AlertKind.FAILED, item)
                elif item.outcome is OccurrenceState.MISSED:
                    self._note(AlertKind.MISSED, item)
            elif type(item) is OccurrenceStarted:
                late_by = item.started_at - item.due_at
                if late_by > _LATE_MIN and item.key.kind is Kind.SCHEDULED:
                    late = format_duration(_seconds(late_by))
                    why = f"it was due at {shown_instant(item.due_at)}, and began {late} late"
                    self._add(_Trouble(AlertKind.LATE, item.job, item.key, None, item.started_at, why, late_by))
            elif type(item) is FellBehind:
                self._behind = item.behind

    def _note(self, kind: AlertKind, item: OccurrenceEnded | OccurrenceDecided) -> None:
        at = item.ended_at if isinstance(item, OccurrenceEnded) else self._clock.now()
        self._add(_Trouble(kind, item.job, item.key, item.outcome, at, item.why or f"it is {item.outcome}"))

    def _add(self, trouble: _Trouble) -> None:
        """Keep the first problem of a job and kind; of late runs the latest, since it may exceed the limit."""
        name = trouble.job, trouble.kind
        known = self._trouble.get(name)
        if known is None and len(self._trouble) >= _TROUBLE_MAX:
            self._left_out += 1
        elif known is None or (known.late_by is not None and (trouble.late_by or GIVE_UP_AFTER) > known.late_by):
            self._trouble[name] = trouble

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Report problems and send alerts until cancelled."""
        while True:
            try:
                await self._turn()
            except ItineraryError as error:
                if not self._is_away:
                    self._is_away = True
                    self._log.warning("alerts.held_up", error=str(error), hint="nothing is lost; it is tried again")
            else:
                self._is_away = False
            await asyncio.sleep(_TURN)

    async def end(self) -> None:
        """Write the known problems to the log for the other nodes to send, if the store answers soon."""
        try:
            async with asyncio.timeout(_END_TIMEOUT):
                await self._follow()
                await self._report()
                await self._store.lease(self._node, ALERTS_STREAM, (ALERTS_STREAM,), 0)
        except (StoreError, TimeoutError) as error:
            self._log.warning("alerts.left_without_a_word", error=str(error), hint="its lease runs out, others go on")
        await self._lookout.close()

    async def _turn(self) -> None:
        now = self._clock.elapsed()
        is_time = now - self._looked_at >= _LOOK_INTERVAL
        if is_time or self._trouble:
            await self._follow()
            await self._report()
        if is_time:
            self._looked_at = now
            await self._report_node()
            mine = await self._store.lease(self._node, ALERTS_STREAM, (ALERTS_STREAM,), _LEASE)
            self._lease = mine[0] if mine else None
            if self._lease is not None:
                await self._look_for_dead()
                await self._look_for_late()
                await self._look_for_recovery()
                await self._report()
        if self._lease is not None:
            await asyncio.gather(*(self._deliver(receiver) for receiver in self._receivers.values()))

    async def _follow(self) -> None:
        """Read the log to its end."""
        incidents = self._incidents
        while True:
            page = await self._store.read(EventsQuery(ALERTS_STREAM, incidents.sequence, limit=_PAGE))
            if unreadable := incidents.take(page, tuple(self._receivers)):
                self._log.error("alerts.unreadable", count=unreadable, log=ALERTS_STREAM, hint="these are passed over")
            if len(page) < _PAGE:
                break
        for name, trouble in list(self._held.items()):
            if name not in incidents.open:
                del self._held[name]
                if trouble.at > incidents.closed.get(trouble.job, 0):
                    self._add(trouble)

    async def _report(self) -> None:
        """Write new problems to the log, if their job wants alerts and no incident is open."""
        trouble, self._trouble = self._trouble, {}
        fresh: list[Alert] = []
        outputs: dict[str, str] = {}
        failed: dict[Key, str] = {}
        for name, one in trouble.items():
            if not self._is_wanted(one):
                continue
            if name in self._incidents.open:
                self._held[name] = one
            else:
                fresh.append(self._alert(one))
                if one.kind is AlertKind.FAILED:
                    failed[one.key] = fresh[-1].alert
        try:
            if failed:
                outputs = await self._outputs(failed)
            if fresh:
                fresh = [replace(alert, output=outputs.get(alert.alert)) for alert in fresh]
                await self._append([seen(alert) for alert in fresh])
        except StoreError:
            self._trouble = {**trouble, **self._trouble}
            raise
        for alert in fresh:
            self._log.warning("alert.raised", kind=alert.kind.value, job=alert.job, run=alert.run, why=alert.why)
        if self._left_out:
            self._log.error(
                "alerts.left_out", count=self._left_out, hint="more jobs are in trouble than can be told of"
            )
            self._left_out = 0

    async def _outputs(self, failed: Mapping[Key, str]) -> dict[str, str]:
        """Read the last output lines of failed tasks, by alert. Of very many at once, only some are read."""
        rows = await self._store.read(ByKeyQuery(tuple(failed)[:_ASKED_AT_ONCE]))
        details = await self._store.read(DetailsQuery(tuple(row.ref for row in rows.values()))) if rows else ()
        found: dict[str, str] = {}
        for detail in details:
            if lines := last_lines(detail.attempts):
                found[failed[detail.row.key]] = self._hide(lines)
        return found

    async def _report_node(self) -> None:
        """Open an incident of this node if it is behind by more than the grace period, and close it after that.

        An earlier node of the same name may have ended while it was behind. Its open incident is closed here, too.
        """
        job = f"(node {self._name})"
        opened, behind = self._incidents.open.get((job, AlertKind.BEHIND)), self._behind
        if behind is not None and (opened is not None or behind.by <= self._settings.grace_period):
            return
        if behind is None and opened is None:
            return
        at = self._clock.now()
        kind = AlertKind.RECOVERED if behind is None else AlertKind.BEHIND
        name = f"{kind}:{job}:{at if behind is None else behind.since}"
        why = "the node keeps up again" if behind is None else f"the node is {behind.sentence}; {behind.advice}"
        alert = Alert(
            alert=name,
            kind=kind,
            job=job,
            run="",
            occurrence="",
            scheduled_at=shown_instant(at if behind is None else behind.since),
            at=shown_instant(at),
            outcome=None,
            why=why,
            node=self._name,
            incident=name if opened is None else opened.alert,
            at_microseconds=at,
        )
        await self._append([seen(alert)])
        if behind is not None:
            self._log.warning("alert.raised", kind=kind.value, job=job, run="", why=why)
        else:
            self._log.info("alert.recovered", job=job, run="")

    async def _append(self, events: Sequence[NewEvent], lease: Lease | None = None) -> bool:
        """Append to the log and read it again. False if another node has the lease now."""
        for first in range(0, len(events), _PAGE):
            some = events[first : first + _PAGE]
            if isinstance(await self._store.append(ALERTS_STREAM, ALERTS_STREAM, some, lease), Refusal):
                self._lease = None
                return False
        await self._follow()
        return True

    def _is_wanted(self, trouble: _Trouble) -> bool:
        config = self._config(trouble.key.job, trouble.key.instant)
        if config is None:
            return trouble.late_by is None or trouble.late_by > self._settings.grace_period
        return config.alerts and (trouble.late_by is None or trouble.late_by > self._patience(config))

    def _patience(self, config: EffectiveConfig) -> int:
        return self._settings.grace_period if config.alert_after is None else config.alert_after

    def _config(self, job: JobNumber, instant: int) -> EffectiveConfig | None:
        """Return the job's configuration at that instant, or else now; None if unreadable."""
        timeline = self._timeline()
        try:
            segment = timeline.in_force(job, instant) or timeline.in_force(job, self._clock.now())
            version = timeline.jobs[job].version if segment is None else segment.version
            return timeline.definition(job, version).config()
        except (ItineraryError, KeyError):
            return None

    def _alert(self, trouble: _Trouble, incident: str | None = None) -> Alert:
        occurrence = str(trouble.key.id(job_id(trouble.job)))
        name = f"{trouble.kind}:{occurrence}"
        instant = trouble.key.instant - trouble.key.instant % SECOND
        return Alert(
            alert=name,
            kind=trouble.kind,
            job=trouble.job,
            run=trouble.key.run_id(trouble.job),
            occurrence=occurrence,
            scheduled_at=shown_instant(instant),
            at=shown_instant(trouble.at),
            outcome=None if trouble.outcome is None else trouble.outcome.value,
            why=self._hide(trouble.why),
            node=self._name,
            incident=name if incident is None else incident,
            at_microseconds=trouble.at,
        )

    # -- the holder of the lease -------------------------------------------------------------------------------------

    async def _look_for_dead(self) -> None:
        """Find nodes that other nodes declared dead within the last hour. Each death is reported once."""
        rows = [
            row
            for row in await self._store.read(NodesQuery())
            if row.number not in self._dead and has_died(row) and (row.left_at or 0) > self._clock.now() - _DEAD_FOR
        ]
        alerts = [self._death(row) for row in rows]
        if not alerts or not await self._append([seen(alert) for alert in alerts], self._lease):
            return
        self._dead |= {row.number for row in rows}
        for alert in alerts:
            self._log.warning("alert.raised", kind=alert.kind.value, job=alert.job, run="", why=alert.why)

    def _death(self, row: NodeRow) -> Alert:
        at = row.left_at or 0
        name = f"{AlertKind.DIED}:(node {row.name}):{row.number}"
        return Alert(
            alert=name,
            kind=AlertKind.DIED,
            job=f"(node {row.name})",
            run="",
            occurrence="",
            scheduled_at=shown_instant(row.beat_at),
            at=shown_instant(at),
            outcome=None,
            why=f"node {row.name} died: it was last heard of at {shown_instant(row.beat_at)}, and did not say that it"
            " leaves; its work was taken over",
            node=self._name,
            incident=name,
            at_microseconds=at,
        )

    async def _look_for_late(self) -> None:
        """Find due occurrences that have not started and are later than allowed."""
        found = await self._lookout.look()
        timeline = self._timeline()
        for one in found.undecided:
            late_by = found.now - one.due_at
            if one.is_skipped or late_by <= _LATE_MIN or one.job not in timeline.jobs:
                continue
            if one.status is OccurrenceState.QUEUED and not self._has_deadline(one):
                continue  # waiting in the queue is what the job asks for
            how = "has no row" if one.status is None else f"is {one.status}"
            late = format_duration(_seconds(late_by))
            why = f"it was due at {shown_instant(one.due_at)}, and has not begun {late} later: it {how}"
            key = Key(one.instant, one.job, Kind.SCHEDULED)
            name = timeline.jobs[one.job].name
            self._add(_Trouble(AlertKind.LATE, name, key, one.status, found.now, why, late_by))

    def _has_deadline(self, one: OverdueInstant) -> bool:
        config = self._config(one.job, one.instant)
        return config is not None and config.alert_after is not None

    async def _look_for_recovery(self) -> None:
        """Find jobs with an incident whose newest run succeeded."""
        jobs = self._next_asked({job for job, _ in self._incidents.open})
        if not jobs:
            return
        numbers = await self._store.read(JobsByNameQuery(tuple(jobs)))
        events: list[NewEvent] = []
        recovered: list[Alert] = []
        for job in jobs:
            if job not in numbers:
                continue
            page = await self._store.read(HistoryQuery(numbers[job].number, limit=1, states=_DECISIVE))
            opened = [alert for (name, _), alert in self._incidents.open.items() if name == job]
            first = min(opened, key=lambda alert: alert.at_microseconds)
            if page.rows and _is_success_after(page.rows[0], max(alert.at_microseconds for alert in opened)):
                alert = self._alert(_recovery(job, page.rows[0]), first.alert)
                recovered.append(alert)
                events.append(seen(alert))
        if events and await self._append(events, self._lease):
            for alert in recovered:
                self._log.info("alert.recovered", job=alert.job, run=alert.run)

    def _next_asked(self, jobs: set[str]) -> list[str]:
        """Return the next jobs to check, those with the longest time since their last check first."""
        waiting = sorted(jobs - self._asked.keys())
        if not waiting:
            self._asked.clear()
            waiting = sorted(jobs)
        some = waiting[:_ASKED_AT_ONCE]
        self._asked |= dict.fromkeys(some)
        return some

    async def _deliver(self, receiver: Receiver) -> None:
        """Send a receiver the alerts that it has not received, in order, for a limited time."""
        until = self._clock.elapsed() + _DELIVER_FOR
        owed = self._incidents.owed_to(receiver.name)
        surplus = max(len(owed) - _OWED_MAX, 0)
        for alert in owed[:surplus]:
            await self._settle(receiver, alert, "too many wait for this receiver")
        for alert in owed[surplus:]:
            place = alert.alert, receiver.name
            tries, again_at = self._waits.get(place, (0, 0))
            if self._lease is None or self._clock.elapsed() >= until or self._clock.elapsed() < again_at:
                return
            try:
                await self._webhook.post(receiver, alert.alert, alert.body(), self._clock.now() // SECOND)
            except DeliveryFailed as error:
                if self._clock.now() - alert.at_microseconds > GIVE_UP_AFTER:
                    await self._settle(receiver, alert, str(error))
                    continue
                wait = min(_FIRST_WAIT << min(tries, 20), _LONGEST_WAIT)
                self._waits[place] = tries + 1, self._clock.elapsed() + wait
                self.counts["retried"] += 1
                self._log.warning(
                    "alert.not_delivered",
                    alert=alert.alert,
                    why=self._hide(str(error)),
                    tries=tries + 1,
                    again_in=wait // SECOND,
                )
                return
            await self._settle(receiver, alert)

    async def _settle(self, receiver: Receiver, alert: Alert, given_up: str | None = None) -> None:
        """Record that an alert arrived or is given up."""
        self._waits.pop((alert.alert, receiver.name), None)
        told = Delivered(alert.alert, receiver.name, given_up is not None)
        if not await self._append([delivery(told, alert.job)], self._lease):
            return  # another node has the lease, and will send the alert once more
        if given_up is None:
            self.counts["delivered"] += 1
            self._log.info("alert.delivered", alert=alert.alert, job=alert.job)
        else:
            self.counts["given_up"] += 1
            self._log.error("alert.given_up", alert=alert.alert, job=alert.job, why=self._hide(given_up))


def last_lines(attempts: Sequence[AttemptRow]) -> str | None:
    """Return the last output lines of the last failed attempt; None if it wrote nothing."""
    failed = [one for one in attempts if one.output and one.status in _FAILED_ATTEMPTS]
    if not failed:
        return None
    newest = max(failed, key=lambda one: (one.ended_at or 0, one.place, one.number))
    return "\n".join((newest.output or "").rstrip().splitlines()[-_OUTPUT_LINES:])[-_OUTPUT_MAX:]


def _recovery(job: str, row: OccurrenceRow) -> _Trouble:
    return _Trouble(AlertKind.RECOVERED, job, row.key, row.status, row.ended_at or 0, "it has run, and went well")


def _is_success_after(row: OccurrenceRow, at: int) -> bool:
    return row.status is OccurrenceState.COMPLETED and (row.ended_at or 0) > at


def _seconds(microseconds: int) -> int:
    """Round down to whole seconds, which is precise enough for a lateness."""
    return microseconds - microseconds % SECOND
