"""What would run next? A handful of jobs, every kind of schedule, and the index that orders them.

    python examples/upcoming.py [--hours 24] [--now 2026-03-08T05:00:00Z]

The engine that runs them is being built; until then this prints what it will be asked to run.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from itinerary import Calendar, Schedule, cron, every, excluding, iso8601, once, union
from itinerary.core import IndexSource, ScheduledRunIndex
from itinerary.schedules import Binding

HOLIDAYS = Calendar("holidays", dates=["2026-12-25", "2026-12-26", "2027-01-01"], closed_on_weekends=True)

JOBS: dict[str, Schedule] = {
    "nightly-report": cron("0 5 * * 1-5", tz="America/New_York"),
    "backup": cron("H 3 * * *", tz="Europe/Berlin"),
    "etl": every("3h"),
    "invoices": iso8601("R/2026-01-31T09:00/P1M", tz="Europe/Berlin"),
    "payroll": excluding(cron("0 9 L * *", tz="Europe/London"), HOLIDAYS, "previous"),
    "stand-up": union(cron("30 9 * * 1-4"), cron("0 11 * * 5"), tz="Asia/Kathmandu"),
    "fireworks": once("2026-12-31T23:59:00Z"),
}
MICROSECONDS = 1_000_000
SHOWN = 25


def main() -> None:
    """Print the jobs, and what is due in the next hours."""
    parser = argparse.ArgumentParser(description="What would run next?")
    parser.add_argument("--hours", type=float, default=24, help="how far to look ahead (default: 24)")
    parser.add_argument(
        "--now", type=datetime.fromisoformat, default=datetime.now(UTC), help="from when on, with an offset"
    )
    options = parser.parse_args()
    if options.now.tzinfo is None:
        parser.error("--now needs an offset, such as 2026-03-08T05:00:00Z")

    # A job fills in what its schedule left open: the name behind H, and its zone.
    jobs = {name: schedule.bind(Binding(job=name)) for name, schedule in JOBS.items()}
    print(f"{len(jobs)} jobs\n")
    for name, schedule in jobs.items():
        following = schedule.next_after(options.now)
        print(f"  {name:16}{schedule}")
        print(f"  {'':16}next: {'never again' if following is None else shown(following, schedule)}")

    now = int(options.now.timestamp()) * MICROSECONDS
    ahead = int(options.hours * 3_600) * MICROSECONDS
    index = ScheduledRunIndex(IndexSource.of(jobs.items()).window(now, grace_period=0, lookahead_window=ahead).runs)
    print(f"\n{len(index)} occurrences in the next {options.hours:g} hours\n")
    for name, instant in index.query(now, now + ahead)[:SHOWN]:
        at = datetime.fromtimestamp(instant / MICROSECONDS, UTC)
        print(f"  {shown(at, jobs[name]):46} in {wait(at - options.now):>10}  {name}")
    if len(index) > SHOWN:
        print(f"  … and {len(index) - SHOWN} more")


def shown(at: datetime, schedule: Schedule) -> str:
    """An instant on the schedule's own wall clock."""
    return f"{at.astimezone(ZoneInfo(schedule.tz or 'UTC')):%a %Y-%m-%d %H:%M:%S %z} {schedule.tz or 'UTC'}"


def wait(left: timedelta) -> str:
    """How long until then: 2h 05m, 4m 10s."""
    minutes, seconds = divmod(int(left.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m {seconds:02}s"


if __name__ == "__main__":
    main()
