"""The course of a simulated year: what is published, and what happens to the service meanwhile."""

import csv
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import httpx
import numpy as np

from monitor.events.model import Message
from monitor.events.times import format_time
from monitor.store.base import BACKFILL
from tests.alarms.receiver import Receiver
from tests.patience import PATIENCE_SECONDS, eventually
from tests.year.clock import SharedClock
from tests.year.fleet import DAY_MS, HOUR_MS, MILLION, NAMES_DAY, Fleet, Ints, Rows, region
from tests.year.months import Months
from tests.year.service import OUTCOMES, PREDICTIONS, Service
from tests.year.truth import Truth

_STEP_MS: Final = 6 * HOUR_MS
_MOST_BEHIND: Final = 100_000
"""Messages that the service may have left to read before the clock moves on: about two days of the fleet."""
_INVENTED: Final = 10_000
_BACKFILLED: Final = "m02"
_TRUTH_DAYS: Final = 90
_GARBAGE: Final = b'{"model":"m03","id":"0","ts":"soon","p":'


class Year:
    """Moves the clock, publishes what the fleet predicts, and lets things happen on their days.

    Attributes
    ----------
    wrong
        What was not as computed offline.
    events
        Messages published.
    happened
        Names of what has happened, with how often.
    """

    def __init__(self, fleet: Fleet, service: Service, clock: SharedClock, receiver: Receiver) -> None:
        self._fleet, self._service, self._clock, self._receiver = fleet, service, clock, receiver
        self._truth = Truth(fleet)
        self._months = Months(fleet, service, self._truth, receiver)
        self._waiting = Rows.joined([])
        """Predictions whose outcomes are due later."""
        self._waiting_in: Ints = np.zeros(0, np.int64)
        """Partition of each."""
        self._written: Counter[tuple[str, int]] = Counter()
        """(topic, partition) -> offset of its end."""
        self._is_silent = False
        self._now_ms = fleet.start_ms
        self._old_key = ""
        self.wrong: list[str] = []
        self.events = 0
        self.happened: Counter[str] = Counter()

    def run(self) -> None:
        """Live through all days."""
        service = self._service
        service.start()
        service.key = service.make_key("first", 90)
        plan = self._plan()
        for day in range(self._fleet.days):
            for action in plan.get(day, ()):
                action()
                self.happened[action.__name__.strip("_")] += 1
            for _ in range(DAY_MS // _STEP_MS):
                self._step()
            if day % 7 == 6:
                self._note(self._truth.differences(service.store))
                self._months.look(self._now_ms)
                self._truth.forget(self._now_ms - _TRUTH_DAYS * DAY_MS)
        self._note(self._months.verdict())

    def _note(self, wrong: Iterable[str]) -> None:
        for line in wrong:
            print(f"WRONG: {line}", flush=True)
            self.wrong.append(line)

    def _plan(self) -> dict[int, list[Callable[[], None]]]:
        """Day -> what happens on its morning, in this order."""
        plan: dict[int, list[Callable[[], None]]] = {}
        often: list[tuple[int, int, Callable[[], None]]] = [
            # (first day, days between two, what)
            (3, 366, self.past_is_backfilled),
            (5, 366, self.backfill_is_replaced),
            (10, 60, self.certificate_is_replaced),
            (14, 366, self.partition_is_added),
            (18, 150, self.garbage_begins),
            (19, 150, self.garbage_ends),
            (23, 120, self.outcomes_fall_silent),
            (24, 120, self.moment_is_noted),
            (25, 120, self.outcomes_come_again),
            (28, 366, self.unread_days_are_removed),
            (34, 60, self.moment_is_compared),
            (36, 180, self.store_is_backed_up),
            (37, 180, self.store_is_restored),
            (NAMES_DAY, 366, self.names_are_invented),
            (44, 90, self.receiver_goes_away),
            (45, 90, self.receiver_comes_back),
            (48, 366, self.topic_is_made_anew),
            (52, 366, self.partition_is_added),
            (55, 30, self.replicas_are_replaced),
            (60, 60, self.key_is_rotated),
            (33, 30, self.map_is_promoted),
            (50, 60, self.map_is_rolled_back),
            (30, 30, self.month_ends),
            (30, 60, self.moment_is_noted),
        ]
        for first, every, action in often:
            for day in range(first, self._fleet.days, every):
                plan.setdefault(day, []).append(action)
        return plan

    # ------------------------------------------------------------------ what is published

    def _step(self) -> None:
        """Publish what comes in the next hours, and let the clock pass them."""
        to_ms = self._now_ms + _STEP_MS
        self._clock.move(to_ms)
        self._publish(self._fleet.draw(self._now_ms, to_ms), to_ms)
        self._now_ms = to_ms
        if self._service.replicas:
            self._wait(_MOST_BEHIND)

    def _publish(self, rows: Rows, to_ms: int) -> None:
        partition = rows.id % self._service.log.partitions
        self._truth.add(rows, partition)
        self._truth.counts["prediction", "accepted"] += rows.id.size
        answered = rows.y >= 0
        self._waiting = Rows.joined([self._waiting, rows.take(answered)])
        self._waiting_in = np.concatenate([self._waiting_in, partition[answered]])
        self._write(self._predictions(rows))
        if self._is_silent:
            return
        due = self._waiting.outcome_ms < to_ms
        outcomes, predicted_in = self._waiting.take(due), self._waiting_in[due]
        self._waiting, self._waiting_in = self._waiting.take(~due), self._waiting_in[~due]
        # A producer that places outcomes by their key puts them elsewhere once partitions were added.
        is_met = (outcomes.id % self._service.log.partitions == predicted_in) & self._truth.holds(outcomes.id)
        self._truth.never_answered(outcomes.id[~is_met])
        self._truth.counts["outcome", "joined"] += int(is_met.sum())
        self._write(self._outcomes(outcomes.take(np.argsort(outcomes.outcome_ms, kind="stable"))))

    def _predictions(self, rows: Rows) -> Iterator[Message]:
        partitions, lives = self._service.log.partitions, self._fleet.lives
        columns = zip(*(column.tolist() for column in rows), strict=True)
        for id_, model, version, value, time_ms, p, _, _ in columns:
            life = lives[model]
            text = (
                f'{{"model":"{life.name}","version":"{version}","id":"{id_:x}","ts":{time_ms},"p":{p / MILLION},'
                f'"segments":{{"region":"{region(life, value)}"}}}}'
            )
            yield Message(PREDICTIONS, text.encode(), partition=id_ % partitions, timestamp_ms=time_ms)
        for number in self._fleet.silent:
            count = 200
            self._truth.counts["unknown", "dead_letter"] += count
            for _ in range(count):
                yield Message(PREDICTIONS, _GARBAGE, partition=number % partitions, timestamp_ms=self._now_ms)

    def _outcomes(self, rows: Rows) -> Iterator[Message]:
        partitions, lives = self._service.log.partitions, self._fleet.lives
        columns = zip(rows.id.tolist(), rows.model.tolist(), rows.outcome_ms.tolist(), rows.y.tolist(), strict=True)
        for id_, model, time_ms, y in columns:
            text = f'{{"model":"{lives[model].name}","id":"{id_:x}","ts":{time_ms},"y":{y}}}'
            yield Message(OUTCOMES, text.encode(), partition=id_ % partitions, timestamp_ms=time_ms)

    def _write(self, messages: Iterator[Message]) -> None:
        batch = list(messages)
        self._service.log.write(batch)
        self._written.update((message.topic, message.partition or 0) for message in batch)
        self.events += len(batch)

    def _wait(self, most: int) -> None:
        """Wait until so few messages are left to read."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (left := self._left()) > most:
            for replica in self._service.replicas:
                replica.check()
            if time.monotonic() > deadline:
                raise RuntimeError(f"{left} messages are left to read: {self._service.replicas[0].output[-3000:]}")
            time.sleep(0.05)

    def _left(self) -> int:
        saved = self._service.store.saved_offsets()
        return sum(end - saved.get(key, 0) for key, end in self._written.items())

    # ------------------------------------------------------------------ what happens

    def past_is_backfilled(self) -> None:
        """Backfill a month of one model, from before its first prediction, which has to be closed by now."""
        self._wait(0)
        self._backfill(seed=1)

    def backfill_is_replaced(self) -> None:
        """Replace that month."""
        self._truth.lose(self._truth.rows.id[self._truth.partition == BACKFILL])
        self._backfill(seed=2)

    def _backfill(self, seed: int) -> None:
        start_ms = self._fleet.start_ms
        past = Fleet(start_ms - 30 * DAY_MS, 30, seed)
        drawn = Rows.joined(
            [past.draw(start_ms - days * DAY_MS, start_ms - (days - 1) * DAY_MS) for days in range(30, 0, -1)]
        )
        number, life = next((at, one) for at, one in enumerate(self._fleet.lives) if one.name == _BACKFILLED)
        rows = drawn.take(drawn.model == number)
        rows = rows._replace(id=-1 - rows.id, version=np.ones_like(rows.version))
        file = self._service.folder / "past.csv"
        with file.open("w", encoding="utf-8", newline="") as output:
            writer = csv.writer(output)
            writer.writerow(["p", "y", "ts", "region"])
            for value, time_ms, p, y in zip(*(column.tolist() for column in rows[3:7]), strict=True):
                writer.writerow([p / MILLION, "" if y < 0 else y, format_time(time_ms), region(life, value)])
        self._service.run(
            *("backfill", str(file), "--model", _BACKFILLED, "--batch", "past", "--version", "1"),
            *("--prediction", "p", "--outcome", "y", "--time", "ts", "--to", format_time(start_ms)),
        )
        self._truth.add(rows, np.full(rows.id.size, BACKFILL))

    def certificate_is_replaced(self) -> None:
        """Replace the certificate of the server, which takes it up by itself."""
        new = self._service.renew_certificate().decode().split()
        eventually(lambda: self._service.shown_certificate().split() == new)

    def partition_is_added(self) -> None:
        """Add a partition to each topic, and restart the replicas, as clients notice it after minutes."""
        if self._service.log.add_partition():
            self._service.replace_each()

    def garbage_begins(self) -> None:
        """Let the producers of three models send garbage for a day."""
        names = {"m03", "m04", "m05"}
        self._fleet.silent = {number for number, life in enumerate(self._fleet.lives) if life.name in names}

    def garbage_ends(self) -> None:
        """Let them send predictions again."""
        self._fleet.silent = set()

    def outcomes_fall_silent(self) -> None:
        """Keep outcomes back, as a job that does not run at the week-end."""
        self._is_silent = True

    def outcomes_come_again(self) -> None:
        """Let that job run again."""
        self._is_silent = False

    def unread_days_are_removed(self) -> None:
        """Stop the service for a day that the log does not keep."""
        self._wait(0)
        before, joined = self._truth.rows.id.max(), self._truth.counts["outcome", "joined"]
        waiting = self._waiting.id
        self._service.stop()
        for _ in range(DAY_MS // _STEP_MS):
            self._step()
        if self._service.log.remove_all():
            gone = self._truth.rows.id[self._truth.rows.id > before]
            self._truth.counts["prediction", "accepted"] -= gone.size
            self._truth.counts["outcome", "joined"] = joined
            self._truth.never_answered(np.setdiff1d(waiting, self._waiting.id))
            self._truth.lose(gone)
        self._service.start()

    def store_is_backed_up(self) -> None:
        """Back up the store, beside the running service."""
        self._service.back_up()

    def store_is_restored(self) -> None:
        """Put the backup of a day ago back; what was read since is read again."""
        self._service.stop()
        self._service.restore()
        self._service.start()

    def names_are_invented(self) -> None:
        """Publish predictions of thousands of models that nobody knows."""
        partitions = self._service.log.partitions
        self._write(
            Message(
                PREDICTIONS,
                f'{{"model":"invented-{one}","version":"1","id":"i{one}","ts":{self._now_ms},"p":0.5}}'.encode(),
                partition=one % partitions,
                timestamp_ms=self._now_ms,
            )
            for one in range(_INVENTED)
        )
        self._truth.counts["prediction", "accepted"] += _INVENTED

    def receiver_goes_away(self) -> None:
        """Let the receiver of alerts refuse everything."""
        self._receiver.statuses = [503] * 100_000

    def receiver_comes_back(self) -> None:
        """Let it take alerts again."""
        self._receiver.statuses = []

    def topic_is_made_anew(self) -> None:
        """Delete the topic of predictions and make it anew, while nobody reads."""
        self._wait(0)
        self._service.stop()
        if self._service.log.make_anew(PREDICTIONS):
            for key in [key for key in self._written if key[0] == PREDICTIONS]:
                del self._written[key]
        self._service.start()

    def replicas_are_replaced(self) -> None:
        """Replace each replica, as an upgrade does."""
        self._service.replace_each()

    def key_is_rotated(self) -> None:
        """Make a new API key; one that has expired opens nothing."""
        old, self._service.key = self._service.key, self._service.make_key(f"key-{self._now_ms}", 90)
        if self._old_key:
            current, self._service.key = self._service.key, self._old_key
            status = self._service.request("GET", "/v1/models").status_code
            self._service.key = current
            if status != httpx.codes.UNAUTHORIZED:
                self._note([f"an expired key was answered with {status}"])
        self._old_key = old

    def map_is_promoted(self) -> None:
        """Promote the newest map of m01 that passed its guard."""
        listed = self._service.get("/v1/models/m01/recalibrations")["recalibrations"]
        for one in listed:
            if one["links"]["promotion"] and self._post(one["links"]["promotion"]):
                return

    def map_is_rolled_back(self) -> None:
        """Take the map of m01 back."""
        self._post("/v1/models/m01/rollback")

    def _post(self, path: str) -> bool:
        return self._service.request("POST", path, json={"note": "as every month"}).is_success

    def moment_is_noted(self) -> None:
        """Note what is answered now, to be asked again as of now."""
        self._wait(0)
        self._months.note_moment()

    def moment_is_compared(self) -> None:
        """Ask what was answered then."""
        self._note(self._months.compare_moments())

    def month_ends(self) -> None:
        """Compare everything with the offline computation."""
        self._wait(0)
        self._note(self._months.compare(self._now_ms, self.events))
