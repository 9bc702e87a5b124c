"""The options of one seed: settings, jobs, and the faults of the day. `derive(seed)` selects them, `str` shows them.

**A day is long.** A node with default settings has 86,400 loop iterations in a day, and nearly all are the same. So the
durations in the settings are scaled. With a scale of 240, one second becomes four minutes and a day has 360 iterations,
each with the same possible events as before. The scale is random, like everything else.

**Swarm testing.** A world with all faults all the time is not the hardest one: a node that never does any work makes no
mistakes. Each seed leaves out some faults completely, and some seeds leave out all of them.
"""

from __future__ import annotations

from enum import StrEnum
from random import Random
from typing import Final

import msgspec

from itinerary.model.settings import Settings
from itinerary.model.task import JsonObject
from itinerary.schedules import Zone, from_json, packaged_zone
from itinerary.schedules.durations import SECOND
from tests.simulation.world.call_faults import CallLane, Weather
from tests.simulation.world.jobs import (
    ZONES,
    SimulatedJob,
    draw_jobs,
    draw_schedule,
    enlarged,
    lengthened,
    shut_down_as,
)
from tests.simulation.world.records import SimulatedDesk, draw_desk
from tests.simulation.world.rng import dice_for, many_of, one_of, spread

__all__ = [
    "DAY",
    "ChangeKind",
    "JobChange",
    "Options",
    "ScheduledFault",
    "TroubleKind",
    "Upgrade",
    "ZoneRelease",
    "derive",
]

DAY: Final = 86_400 * SECOND
_INSTANTS_MAX: Final = 100
"""The most instants of a schedule that a job gets during the day."""

_RARE: Final = 0.2
"""The probability that a world has one of the rarer faults."""
_BEGINNINGS: Final = (
    1_774_699_200,  # 2026-03-28 12:00 UTC: Berlin changes to summer time that night, St John's has changed
    1_792_843_200,  # 2026-10-24 12:00 UTC: Berlin changes back
    1_767_268_800,  # 2026-01-01 12:00 UTC
    1_785_585_600,  # 2026-08-01 12:00 UTC
)


class TroubleKind(StrEnum):
    """A kind of fault or event in a world, other than a failed call."""

    CRASH = "crash"
    """A process ends, and its node starts again after a while."""
    FREEZE = "freeze"
    JUMP = "jump"
    """A node's clock is set to another time."""
    OUTAGE = "outage"
    """The store answers no call."""
    CUT_OFF = "cut off"
    """The store receives no call of one node."""
    SHUTDOWN = "shutdown"
    """A node is asked to end, as by SIGTERM, and starts again after a while."""
    CANCEL = "cancel"
    """An operator cancels a random occurrence."""
    TRIGGER = "trigger"
    """An operator triggers a job."""
    HANG = "hang"
    """A connection of a node hangs: its calls of one kind are never answered."""
    FULL = "full disk"
    """The store refuses every write of all nodes. Reads work."""
    HOLD_UP = "hold up"
    """The event loop of a node stops for a while. Its other threads and its tasks run."""
    SIGTERM = "sigterm"
    """A node gets SIGTERM during one of its next calls: in its start, its recovery or its work.

    A second SIGTERM may follow during its shutdown.
    """


_RARER: Final = (TroubleKind.HANG, TroubleKind.FULL, TroubleKind.HOLD_UP, TroubleKind.SIGTERM)
"""Faults with a separate random generator, so the usual faults of a seed stay the same."""
_USUAL: Final = tuple(kind for kind in TroubleKind if kind not in _RARER)


class ScheduledFault(msgspec.Struct, frozen=True):
    """A fault or an operator's action at a time."""

    at: float
    """Seconds since the start of the day."""
    kind: TroubleKind
    node: int
    lasts: float
    """The duration in seconds; for a jump, the distance."""
    in_a_call: bool = False
    """True if the fault waits for the node's next call. An idle node would hardly be affected."""
    lane: CallLane | None = None
    """For a hanging connection: the kind of its calls."""
    calls: int = 0
    """For a SIGTERM: the number of calls that the node makes before it."""
    again_after: int | None = None
    """For a SIGTERM: the number of calls before a second SIGTERM; None for no second one."""
    in_start: bool = False
    """For a SIGTERM: True if the node crashes first, and the calls of its next start count."""

    def __str__(self) -> str:
        """Return the fault as one line."""
        text = f"{self.at:>12.3f} {self.kind} node {self.node} {self.lasts:.3f} s"
        if self.lane is not None:
            return f"{text}, {self.lane}"
        if self.kind is TroubleKind.SIGTERM:
            again = "" if self.again_after is None else f", and again {self.again_after} calls later"
            return f"{text}, after {self.calls} calls{' of its next start' if self.in_start else ''}{again}"
        return text


class ChangeKind(StrEnum):
    """An operator's change to a job."""

    PAUSE = "pause"
    UPDATE = "update"


class JobChange(msgspec.Struct, frozen=True):
    """A change to a job at a time."""

    at: float
    """Seconds since the start of the day."""
    kind: ChangeKind
    job: int
    lasts: float
    """Seconds until the job is resumed, or until the new version takes effect."""
    schedule: JsonObject
    """The schedule of the new version."""


class ZoneRelease(msgspec.Struct, frozen=True):
    """A zone data release of this world, whose zones are ahead of the packaged ones."""

    name: str
    """The release name, in the style of IANA."""
    ahead: dict[str, int] = {}
    """The seconds by which each changed zone is ahead."""

    def zone(self, name: str) -> Zone:
        """Return the table of one zone."""
        zone, ahead = packaged_zone(name), self.ahead.get(name, 0)
        return Zone(name, zone.starts, tuple(offset + ahead for offset in zone.offsets))


class Upgrade(msgspec.Struct, frozen=True):
    """A machine that gets newer or older zone data, and restarts with it."""

    at: float
    """Seconds since the start of the day."""
    node: int
    release: int
    """The index of the release."""
    lasts: float
    """Seconds until the restart."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a seed determines before the day begins."""

    seed: int
    begins_at: int
    runs_for: int
    scale: int
    nodes: int
    settings: Settings
    weather: Weather
    troubles: tuple[ScheduledFault, ...]
    jobs: tuple[SimulatedJob, ...]
    changes: tuple[JobChange, ...]
    releases: tuple[ZoneRelease, ...] = (ZoneRelease("2026a"),)
    """Zone data from the oldest to the newest. All machines start with the oldest."""
    upgrades: tuple[Upgrade, ...] = ()
    desk: SimulatedDesk | None = None
    """The record scheduler of all nodes, in some worlds."""

    def __str__(self) -> str:
        """Return all options as text, to analyse a failed seed."""
        lines = [
            f"seed {self.seed}: {self.nodes} nodes, scale {self.scale}, begins at {self.begins_at}",
            f"  settings {_json(self.settings)}",
            f"  weather  {_json(self.weather)}",
        ]
        lines += [f"  {trouble}" for trouble in self.troubles]
        lines += [
            f"  {change.at:>12.3f} {change.kind} job-{change.job} {change.lasts:.3f} s {_json(change.schedule)}"
            for change in self.changes
        ]
        lines += [f"  zone data {release.name} {_json(release.ahead)}" for release in self.releases[1:]]
        lines += [
            f"  {upgrade.at:>12.3f} node {upgrade.node} gets zone data {self.releases[upgrade.release].name}"
            for upgrade in self.upgrades
        ]
        lines += [] if self.desk is None else [f"  {self.desk}"]
        for job in self.jobs:
            lines += [f"  {job.name} {_json(job.schedule)} {_json(job.overrides)}"]
            lines += [f"    {_json(task)}" for task in job.tasks]
        return "\n".join(lines)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def derive(
    seed: int, *, nodes: int | None = None, runs_for: int = DAY, is_changing: bool = True, has_rarer: bool = True
) -> Options:
    """Return the options of a seed.

    Args:
        seed: The seed.
        nodes: The number of nodes; None for a random number.
        runs_for: The length of the day, in microseconds.
        is_changing: False if no operator changes a job, and zone data stays the same.
        has_rarer: False for only the usual faults and no record scheduler, as in older versions of the simulation.
    """
    dice = dice_for(seed, "options")
    scale = one_of(dice, (120, 240, 240, 480))
    count = one_of(dice, (1, 2, 3)) if nodes is None else nodes
    begins_at = one_of(dice, _BEGINNINGS) * SECOND
    settings = _settings(dice_for(seed, "settings"), scale)
    jobs = draw_jobs(dice_for(seed, "jobs"), begins_at, runs_for, one_of(dice, (30, 100, 200)))
    jobs = lengthened(dice_for(seed, "long"), jobs, settings.node_heartbeat_interval * 3 / SECOND)
    if has_rarer and dice_for(seed, "huge results").random() < _RARE:
        jobs = enlarged(dice_for(seed, "huge results of jobs"), jobs, settings.node_heartbeat_interval / SECOND)
    jobs = shut_down_as(dice_for(seed, "shutdown"), jobs)
    is_calm = dice.random() < 0.05
    releases = _releases(dice_for(seed, "zone data")) if is_changing else (ZoneRelease("2026a"),)
    return Options(
        seed=seed,
        begins_at=begins_at,
        runs_for=runs_for,
        scale=scale,
        nodes=count,
        settings=settings,
        weather=Weather() if is_calm else _weather_of(seed, scale, settings, has_rarer=has_rarer),
        troubles=() if is_calm else _all_troubles(seed, count, settings, runs_for / SECOND, has_rarer=has_rarer),
        jobs=jobs,
        changes=_changes(dice_for(seed, "changes"), len(jobs), begins_at, runs_for) if is_changing else (),
        releases=releases,
        upgrades=_upgrades(dice_for(seed, "upgrades"), len(releases), count, settings, runs_for / SECOND),
        desk=_desk(seed, settings, begins_at, runs_for / SECOND) if has_rarer else None,
    )


def _desk(seed: int, settings: Settings, begins_at: int, lasts: float) -> SimulatedDesk | None:
    if dice_for(seed, "is there a desk").random() >= _RARE:
        return None
    return draw_desk(dice_for(seed, "desk"), settings.node_heartbeat_interval / SECOND, begins_at, lasts)


def _settings(dice: Random, scale: int) -> Settings:
    usual = Settings()

    def scaled(duration: int, least: float = 0.5, most: float = 2.0) -> int:
        return round(duration * scale * spread(dice, least, most))

    return Settings(
        pre_schedule_interval=scaled(usual.pre_schedule_interval),
        index_rebuild_interval=scaled(usual.index_rebuild_interval),
        lookahead_window=scaled(usual.lookahead_window),
        grace_period=scaled(usual.grace_period),
        loop_interval=scaled(usual.loop_interval),
        inbox_send_timeout=scaled(usual.inbox_send_timeout),
        orchestrator_heartbeat_interval=scaled(usual.orchestrator_heartbeat_interval),
        node_heartbeat_interval=scaled(usual.node_heartbeat_interval),
        takeover_after=scaled(usual.takeover_after),
        max_concurrent_jobs=one_of(dice, (1, 2, 5, 50)),
        shutdown_grace_period=scaled(usual.shutdown_grace_period),
        kill_grace=scaled(usual.kill_grace, 0.1, 1.0),
        reaper_interval=scaled(usual.reaper_interval),
        update_flush_threshold=one_of(dice, (1, 5, 100)),
        update_flush_interval=scaled(usual.update_flush_interval),
        stats_flush_interval=scaled(usual.stats_flush_interval),
        limits={"api": one_of(dice, (1, 1, 2, 5))},
    )


def _weather(dice: Random, scale: int) -> Weather:
    chosen = many_of(dice, ("slow", "refused", "lost", "late", "repeated"))
    rates = {name: spread(dice, 0.002, 0.15) for name in chosen}
    return Weather(
        latency=one_of(dice, (0.001, 0.02, 0.2)),
        slow_for=spread(dice, 1.0, scale),
        patience=spread(dice, 1.0, 5.0 * scale),
        heard_after=one_of(dice, (0.01, 0.25)),
        **rates,
    )


def _weather_of(seed: int, scale: int, settings: Settings, *, has_rarer: bool) -> Weather:
    """Return the call faults. In some worlds, a few calls are never answered.

    The caller's deadline is then about as long as the silence after which a node counts as dead.
    """
    weather, dice = _weather(dice_for(seed, "weather"), scale), dice_for(seed, "hangs")
    if not has_rarer:
        return weather
    deadline = settings.node_heartbeat_interval / SECOND * spread(dice, 0.3, 5.0)
    rate = spread(dice, 0.002, 0.05) if dice.random() < _RARE else 0.0
    return msgspec.structs.replace(weather, unanswered=rate, deadline=deadline)


def _all_troubles(
    seed: int, nodes: int, settings: Settings, lasts: float, *, has_rarer: bool
) -> tuple[ScheduledFault, ...]:
    """Return the usual faults, and rarer faults from a separate random generator."""
    usual = _troubles(dice_for(seed, "troubles"), nodes, settings, lasts)
    if not has_rarer:
        return usual
    rarer = _rarer_troubles(dice_for(seed, "rarer troubles"), nodes, settings, lasts)
    return tuple(sorted([*usual, *rarer], key=lambda trouble: trouble.at))


def _rarer_troubles(dice: Random, nodes: int, settings: Settings, lasts: float) -> list[ScheduledFault]:
    kinds = many_of(dice, _RARER, _RARE)
    count = one_of(dice, (1, 3, 8)) if kinds else 0
    return [
        ScheduledFault(
            dice.random() * lasts * 0.9,
            kind := one_of(dice, kinds),
            int(dice.random() * nodes),
            _duration(dice, kind, settings),
            lane=one_of(dice, tuple(CallLane)) if kind is TroubleKind.HANG else None,
            calls=int(spread(dice, 1.0, 40.0)) - 1,
            again_after=int(spread(dice, 1.0, 20.0)) - 1 if dice.random() < 0.4 else None,
            in_start=dice.random() < 0.5,
        )
        for _ in range(count)
    ]


def _troubles(dice: Random, nodes: int, settings: Settings, lasts: float) -> tuple[ScheduledFault, ...]:
    kinds = many_of(dice, _USUAL)
    count = one_of(dice, (2, 5, 10, 20)) if kinds else 0
    drawn = [
        ScheduledFault(
            dice.random() * lasts * 0.9,
            kind := one_of(dice, kinds),
            int(dice.random() * nodes),
            _duration(dice, kind, settings),
            in_a_call=dice.random() < 0.5,
        )
        for _ in range(count)
    ]
    return tuple(sorted(drawn, key=lambda trouble: trouble.at))


def _changes(dice: Random, jobs: int, begins_at: int, runs_for: int) -> tuple[JobChange, ...]:
    drawn = [
        JobChange(
            dice.random() * runs_for / SECOND * 0.9,
            one_of(dice, tuple(ChangeKind)),
            int(dice.random() * jobs),
            one_of(dice, (0.0, 1.0, spread(dice, 10.0, 20_000.0))),
            _bounded_schedule(dice, begins_at, runs_for),
        )
        for _ in range(one_of(dice, (0, 0, 1, 3, 8)))
    ]
    return tuple(sorted(drawn, key=lambda change: change.at))


def _releases(dice: Random) -> tuple[ZoneRelease, ...]:
    """Return the zone data releases: only the first one, or up to three newer ones."""
    count = one_of(dice, (0, 0, 1, 1, 2, 3))
    newer = [
        ZoneRelease(
            f"2026{letter}", {zone: one_of(dice, (-3600, -1800, 7, 1200, 3600)) for zone in many_of(dice, ZONES, 0.7)}
        )
        for letter in "bcd"[:count]
    ]
    return (ZoneRelease("2026a"), *newer)


def _upgrades(dice: Random, releases: int, nodes: int, settings: Settings, lasts: float) -> tuple[Upgrade, ...]:
    """Return upgrades of each machine to each release. Some upgrades install another release, even an older one."""
    drawn = []
    for release in range(1, releases):
        begins = dice.random() * lasts * 0.8
        for node in range(nodes):
            takes = one_of(dice, (settings.grace_period / SECOND * 4, lasts * 0.1))
            at = min(begins + dice.random() * takes, lasts * 0.9)
            given = release if dice.random() < 0.8 else int(dice.random() * releases)
            drawn.append(Upgrade(at, node, given, _duration(dice, TroubleKind.SHUTDOWN, settings)))
    return tuple(sorted(drawn, key=lambda upgrade: upgrade.at))


def _bounded_schedule(dice: Random, begins_at: int, runs_for: int) -> JsonObject:
    while True:
        schedule = draw_schedule(dice, begins_at, runs_for)
        if len(from_json(schedule).between(begins_at, begins_at + runs_for)) <= _INSTANTS_MAX:
            return schedule


def _duration(dice: Random, kind: TroubleKind, settings: Settings) -> float:
    """Return half, one and a half, or five times a random timeout of the settings."""
    timeout = one_of(
        dice,
        (
            settings.takeover_after,
            settings.node_heartbeat_interval,
            settings.node_heartbeat_interval * 3,
            settings.orchestrator_heartbeat_interval,
            settings.orchestrator_heartbeat_interval * settings.max_missed_orchestrator_heartbeats,
            settings.grace_period,
            settings.kill_grace,
            settings.pre_schedule_interval,
            settings.index_rebuild_interval,
            settings.loop_interval,
        ),
    )
    seconds = timeout / SECOND * one_of(dice, (0.5, 1.5, 5.0))
    if kind is TroubleKind.JUMP and dice.random() < 0.5:
        return -seconds
    return seconds
