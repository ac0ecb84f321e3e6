"""A year in the life of the service: ``python -m tests.year`` drives it through 365 simulated days in an hour.

Forty models release versions with canaries, undeclared ones come and go, segment values change, faults begin and end;
and what months bring happens to the service: see :mod:`tests.year.life`. At each month everything that it says is
compared with an offline computation over the same events. The exit status is 1 if anything differs.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.alarms.receiver import receiver
from tests.year.clock import SharedClock
from tests.year.fleet import DAY_MS, Fleet
from tests.year.life import Year
from tests.year.months import Month
from tests.year.service import Service


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table and the verdict; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.year", description=__doc__)
    parser.add_argument("--days", type=int, default=365, help="simulated days (default: 365)")
    parser.add_argument("--real", action="store_true", help="Kafka, PostgreSQL and three replicas, not SQLite and one")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn (default: 0)")
    options = parser.parse_args(arguments)
    # Ends as an interrupt does, and the service with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    # It ends about now: nothing that goes by the machine's clock takes its events for those of the future.
    start_ms = (round(time.time() * 1000) // DAY_MS - options.days - 1) * DAY_MS
    fleet = Fleet(start_ms, options.days, options.seed)
    with tempfile.TemporaryDirectory(prefix="year-") as name, receiver() as hook:
        folder = Path(name)
        clock = SharedClock(folder / "clock", start_ms)
        with Service(folder, clock, fleet, hook.url, real=options.real) as service:
            year = Year(fleet, service, clock, hook)
            print(Month.head(), flush=True)
            year.run()
    minutes = (time.monotonic() - began) / 60
    print(f"\n{options.days} days in {minutes:.0f} minutes, {year.events:,} events; what happened: {year.happened}")
    print(f"{len(year.wrong)} lines are WRONG" if year.wrong else "all as computed offline")
    return int(bool(year.wrong))


if __name__ == "__main__":
    sys.exit(main())
