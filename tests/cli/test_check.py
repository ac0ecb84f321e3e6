"""`monitor check` on parts that are well, and on parts that are not: each is told in words, and nothing is changed."""

import json
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import trustme
import yaml

from monitor.app.checks import CHECKS, CheckResult, CheckStatus, Surroundings, machine, run_checks
from monitor.app.parts import make_log, make_webhooks, open_store
from monitor.app.settings import Settings, load_settings
from monitor.clock import ManualClock, SystemClock
from monitor.events.model import DeadLetter, Message, Reason
from monitor.events.strata import Cap
from monitor.measures import WINDOW_MEASURES
from monitor.store.alerts import save
from monitor.store.base import CapUse, ModelState
from monitor.store.evaluations import Evaluation, EvaluationStore
from monitor.store.sql import SqlStore
from monitor.store.webhooks import WebhookStore
from monitor.windows.snapshot import encode_reports
from tests.alarms.findings import advanced, finding
from tests.cli.command import inside
from tests.evaluations import save as save_evaluations
from tests.patience import joined
from tests.real.child import free_ports
from tests.real.kafka import PASSWORD, USERNAME, KafkaBroker
from tests.real.postgres import PASSWORD as POSTGRES_PASSWORD
from tests.real.postgres import PostgresServer
from tests.snapshots import report
from tests.store.samples import checkpoint

OK, WARN, FAIL = CheckStatus.OK, CheckStatus.WARN, CheckStatus.FAIL
CLOCK = SystemClock()
START_MS = 1_760_000_000_000


def settings(folder: Path, tree: Mapping[str, Any] | None = None) -> Settings:
    """Of a service in a folder, on any port; written to its monitor.yaml."""
    chosen: dict[str, Any] = {
        "source": {"embedded": {"directory": str(folder / "log")}},
        "store": {"url": f"sqlite:///{folder}/state.db"},
        "api": {"port": 0},
        "access": {"mode": "off"},
    }
    (folder / "monitor.yaml").write_text(yaml.safe_dump(chosen | dict(tree or {})), encoding="utf-8")
    return load_settings(folder / "monitor.yaml", {})


def look(chosen: Settings, *names: str, **around: Any) -> list[CheckResult]:
    return list(run_checks(Surroundings(chosen, environ=around.pop("environ", {}), **around), names or tuple(CHECKS)))


def worst(found: list[CheckResult], check: str) -> tuple[CheckStatus, str]:
    """The worst finding of a check."""
    of_check = [each for each in found if each.check == check]
    assert of_check, found
    chosen = max(of_check, key=lambda each: list(CheckStatus).index(each.verdict))
    return chosen.verdict, chosen.detail


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


# ---------------------------------------------------------------------- the embedded log and SQLite


def test_nothing_is_made_where_nothing_is(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    before = files(tmp_path)
    found = look(chosen)
    assert {each.verdict for each in found} == {OK}, found
    assert files(tmp_path) == before


def test_nothing_is_changed_beside_a_service_that_runs(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    log = make_log(chosen, CLOCK)
    log.source.poll(0, 1)
    log.writer.write([Message("calibration-events", b"{}", b"k")])
    with open_store(chosen, CLOCK) as store:
        store.save([checkpoint(store.claim(0), 0, offsets={"calibration-events": 0})])
        before = {name: data for name, data in files(tmp_path).items() if not name.endswith("-shm")}
        found = look(chosen)
        assert {name: data for name, data in files(tmp_path).items() if not name.endswith("-shm")} == before
        assert store.claim(0) == 2
    log.source.close()
    assert {each.verdict for each in found} == {OK}, found
    assert "1 records" in worst(found, "log")[1]
    assert "a service reads it" in worst(found, "log")[1]
    assert "1 partitions" in worst(found, "store")[1]
    assert worst(found, "offsets") == (OK, "the log holds all that the store has not read: 1 records")


def test_a_model_that_a_partition_holds_back_is_named_with_the_reason(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    clock = ManualClock(START_MS)
    hour_ms = 3_600_000
    in_time, silent = (
        ModelState("churn", START_MS, START_MS, START_MS - 25 * hour_ms),
        ModelState("churn", START_MS, START_MS - 48 * hour_ms, START_MS - 60 * hour_ms),
    )
    with open_store(chosen, clock) as store:
        for partition, state in enumerate((in_time, silent)):
            epoch = store.claim(partition)
            store.save([checkpoint(epoch, 0, partition=partition, models=[state], read_to_ms=START_MS)])
        found = look(chosen, "store", clock=clock)
        detail = "settled up to 2025-10-06T20:53:20.000Z, held back by partition 1: outcome log silent since 2025-10-07"
        assert worst(found, "settled") == (WARN, f"churn: {detail}T08:53:20.000Z")
        store.save([checkpoint(1, 1, partition=1, models=[in_time], read_to_ms=START_MS)])
        assert worst(look(chosen, "store", clock=clock), "settled") == (
            OK,
            "no partition holds a model back, of 1 models",
        )


def test_models_whose_events_are_refused_are_named(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    with open_store(chosen, CLOCK) as store:
        epoch = store.claim(0)
        letters = [
            DeadLetter("events", 0, at, 0, Reason.REFUSED_MODEL, f"model 'm{at // 2}' is refused", None, b"{}", ())
            for at in range(50)
        ]
        store.save([checkpoint(epoch, 0, dead_letters=letters)])
    refused = [finding for finding in look(chosen, "store") if finding.check == "refused"]
    assert {finding.verdict for finding in refused} == {WARN}
    assert [finding.detail.partition(" (since 2")[0] for finding in refused] == [
        *(f"model 'm{model}' is refused" for model in range(20)),
        "events of 5 more models are refused",
    ]


def test_caps_that_are_nearly_full_or_have_folded_names_are_named(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    caps = {
        Cap("models"): CapUse(180, 200),
        Cap("versions", "churn"): CapUse(17, 20),
        Cap("versions", "fraud"): CapUse(18, 20),
        Cap("segment_values", "fraud", "region"): CapUse(7, 50, folded=1234),
    }
    with open_store(chosen, CLOCK) as store:
        store.save([checkpoint(store.claim(0), 0, caps=caps)])
    found = [finding for finding in look(chosen, "store") if finding.check == "caps"]
    assert {finding.verdict for finding in found} == {WARN}
    live, fewer = "live in a partition", "or send fewer"
    declare = "declare what matters under models.declared, or raise caps.models"
    raised = f"raise caps.segment_values, {fewer}"
    assert [finding.detail for finding in found] == [
        f"180 of at most 200 undeclared models {live}; events of further ones are refused; {declare}",
        f"fraud: 1,234 predictions count as `other`: 7 of at most 50 values of the segment key region {live}; {raised}",
        f"fraud: 18 of at most 20 versions {live}; further ones will count as `other`; raise caps.versions, {fewer}",
    ]


def test_live_replicas_are_listed_and_a_role_that_none_has_is_named(tmp_path: Path) -> None:
    chosen, clock = settings(tmp_path), ManualClock(START_MS)
    with open_store(chosen, clock) as store:
        assert not [found for found in look(chosen, "store", clock=clock) if found.check == "replicas"]
        evaluations = EvaluationStore(store.database)
        evaluations.beat("gone", ("consume", "evaluate", "serve"))
        clock.advance(60)
        evaluations.beat("monitor-0", ("consume", "evaluate"))
        evaluations.acquire("monitor-0", ["churn", "fraud"])
        clock.advance(2)
        evaluations.beat("monitor-1", ("evaluate",))
        found = [found for found in look(chosen, "store", clock=clock) if found.check == "replicas"]
    first, second, missing = [(one.verdict, one.detail) for one in found]
    times = "started 2025-10-09T08:54:{0}.000Z, last seen 2025-10-09T08:54:{0}.000Z"
    assert first == (OK, "monitor-0: consume, evaluates 2 models; " + times.format(20))
    assert second == (OK, "monitor-1: evaluates 0 models; " + times.format(22))
    assert missing == (WARN, "no live replica has the role serve: reports and pages are not answered")


def test_windows_that_do_not_fit_into_metrics_are_counted_with_what_to_change(tmp_path: Path) -> None:
    chosen = settings(tmp_path, {"exposition": {"max_series": 100}})
    with open_store(chosen, ManualClock(START_MS)) as store:
        evaluations = EvaluationStore(store.database)
        assert worst(look(chosen, "store"), "metrics") == (OK, "0 time series about windows at exposition.level values")
        reports = encode_reports([report(window=window, measures=WINDOW_MEASURES.values()) for window in ("1h", "old")])
        leases = evaluations.acquire("monitor-0", ["churn"])
        save_evaluations(evaluations, "monitor-0", leases, [Evaluation("churn", START_MS, b"", reports)])
        fits = worst(look(chosen, "store"), "metrics")
        everything = settings(tmp_path, {"exposition": {"max_series": 50, "level": "intervals"}})
        verdict, detail = worst(look(everything, "store"), "metrics")
    assert fits == (OK, "30 time series about windows at exposition.level values")
    assert verdict == WARN
    assert detail.startswith(
        "66 time series about windows at exposition.level intervals, of which exposition.max_series takes 50"
    )
    assert "raise it, or lower exposition.level" in detail


def test_predictions_that_no_outcome_meets_are_named(tmp_path: Path) -> None:
    chosen = settings(tmp_path, {"windows": [{"length": "1h"}, {"length": "6h"}, {"length": "7d", "mature": False}]})
    with open_store(chosen, ManualClock(START_MS)) as store:
        evaluations = EvaluationStore(store.database)
        leases = evaluations.acquire("monitor-0", ["churn", "fraud"])
        few = "0 predictions have an outcome"
        reports = {
            # The window of the most predictions counts, of those that are mature.
            "churn": [report(window="1h", n=10), report(window="6h", n=900), report(window="7d-immature", n=9000)],
            "fraud": [report("fraud", window="6h", n=0, insufficient=few)],
        }
        done = [Evaluation(model, START_MS, b"", encode_reports(found)) for model, found in reports.items()]
        save_evaluations(evaluations, "monitor-0", leases, done)
        first, second = [(one.verdict, one.detail) for one in look(chosen, "store") if one.check == "labels"]
    assert (first[0], second[0]) == (WARN, OK)
    assert first[1].startswith("0 of 100 predictions of fraud 7 in the window 6h have an outcome: see whether outcomes")
    assert second[1] == "900 of 1,000 predictions of churn 7 in the window 6h have an outcome"


def test_a_receiver_of_alerts_that_does_not_take_them_is_named(tmp_path: Path) -> None:
    chosen = settings(tmp_path, {"alerts": {"webhooks": {"oncall": {"url": "http://127.0.0.1:1/"}}}})
    with open_store(chosen, ManualClock(START_MS)) as store:
        webhooks, (target,) = WebhookStore(store.database), make_webhooks(chosen)
        assert worst(look(chosen, "store"), "webhooks") == (OK, "oncall: waiting changes of alerts: 0")
        webhooks.register(["oncall"])
        alert = advanced(None, finding(9.0), START_MS)
        with store.database.writing() as connection:
            save(store.database, connection, [(None, alert)], START_MS)
        delivery = webhooks.claim("oncall", "a", target.states)
        assert delivery is not None
        webhooks.failed("oncall", "a", delivery.attempts, "no answer within 10 s")
        counts = "waiting changes of alerts: 1, attempts at the next: 1"
        detail = f"oncall: {counts}; the last attempt failed: no answer within 10 s"
        assert worst(look(chosen, "store"), "webhooks") == (WARN, detail)


def test_the_command_prints_a_line_for_each_and_ends_with_0_or_1(tmp_path: Path) -> None:
    settings(tmp_path)
    done = inside("check", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    *lines, last = done.stdout.splitlines()
    assert all(line.startswith("ok  ") for line in lines)
    assert last == f"{len(lines)} ok, 0 to look at, 0 failed"
    settings(tmp_path, {"access": {"mode": "required"}})
    assert inside("check", cwd=tmp_path).returncode == 0
    assert inside("check", "--strict", cwd=tmp_path).returncode == 1
    told = json.loads(inside("check", "--json", cwd=tmp_path).stdout)
    assert told["ok"] is True
    assert {each["check"] for each in told["findings"]} >= {"configuration", "store", "disk", "access", "port"}


def test_wrong_settings_are_findings_too(tmp_path: Path) -> None:
    (tmp_path / "monitor.yaml").write_text("api: {port: 99999}\nstor: {}\n")
    done = inside("check", cwd=tmp_path)
    assert done.returncode == 1
    assert "fail  configuration" in done.stdout
    assert "api.port must be at most 65535" in done.stdout
    assert "stor" in done.stdout


def test_a_store_of_a_newer_version_or_of_none_fails(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    SqlStore.open(chosen.store.url, clock=SystemClock()).close()
    for revision, said in (("9999", "this version knows up to"), ("0001", "start with an empty store")):
        with closing(sqlite3.connect(tmp_path / "state.db")) as file, file:
            file.execute("UPDATE alembic_version SET version_num = ?", (revision,))
        found, detail = worst(look(chosen, "store"), "store")
        assert (found, said in detail) == (FAIL, True), detail
        with closing(sqlite3.connect(tmp_path / "state.db")) as file:
            assert file.execute("SELECT version_num FROM alembic_version").fetchall() == [(revision,)]


def test_a_store_of_another_grid_or_none_at_all_fails(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    SqlStore.open(chosen.store.url, clock=SystemClock()).close()
    with closing(sqlite3.connect(tmp_path / "state.db")) as file, file:
        file.execute("UPDATE meta SET value = '77'")
    assert "grid version 77" in worst(look(chosen, "store"), "store")[1]
    (tmp_path / "state.db").write_text("p,y\n" * 5000)
    verdict, detail = worst(look(chosen, "store"), "store")
    assert verdict is FAIL
    assert "is not a SQLite file" in detail


def test_a_log_that_is_another_than_the_stores_fails(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    make_log(chosen, CLOCK).source.close()
    with open_store(chosen, CLOCK) as store:
        store.save([checkpoint(store.claim(0), 0, offsets={"calibration-events": 7})])
    verdict, detail = worst(look(chosen, "store"), "offsets")
    assert verdict is FAIL
    assert "ends 7 records before the store's offset" in detail
    follows = settings(
        tmp_path, {"source": {"embedded": {"directory": str(tmp_path / "log")}, "when_purged": "earliest"}}
    )
    assert worst(look(follows, "store"), "offsets")[0] is WARN
    assert worst(look(follows, "configuration"), "configuration")[0] is WARN


def test_a_full_disk_is_said_before_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = settings(tmp_path)
    monkeypatch.setattr(machine, "_WARN_FREE_BYTES", 1 << 62)
    verdict, detail = worst(look(chosen, "disk"), "disk")
    assert verdict is WARN
    assert "make room" in detail
    monkeypatch.setattr(machine, "_FAIL_FREE_BYTES", 1 << 62)
    verdict, detail = worst(look(chosen, "disk"), "disk")
    assert verdict is FAIL
    assert "will soon be refused" in detail
    monkeypatch.setattr(machine, "_WARN_FREE_BYTES", 0)
    monkeypatch.setattr(machine, "_FAIL_FREE_BYTES", 0)
    assert [finding.verdict for finding in look(chosen, "disk")] == [OK] * 3


def test_a_secret_that_everybody_can_read_is_warned_of(tmp_path: Path) -> None:
    chosen = settings(tmp_path, {"store": {"url": "postgresql://monitor:canary@db/calibration"}})
    file = tmp_path / "monitor.yaml"
    secret = tmp_path / "secret"
    secret.write_text("canary")
    environ = {"MONITOR__SOURCE__KAFKA__SASL_PLAIN_PASSWORD_FILE": str(secret)}
    for mode, expected in ((0o644, 2), (0o640, 0)):
        file.chmod(mode)
        secret.chmod(mode)
        found = look(chosen, "configuration", file=file, environ=environ)
        assert sum(each.check == "secrets" for each in found) == expected
        assert "canary" not in repr(found)


def test_a_port_is_free_ours_or_taken(tmp_path: Path) -> None:
    chosen = settings(tmp_path, {"api": {"port": free_ports(1)[0]}})
    assert "is free" in worst(look(chosen, "port"), "port")[1]
    for body, verdict, said in (
        (b'{"status":"ok","version":"1.2.3"}', OK, "version 1.2.3 answers there already"),
        (b"<html>", FAIL, "taken by another program"),
    ):
        with answering({"/healthz": body}) as port:
            found = worst(look(settings(tmp_path, {"api": {"port": port}}), "port"), "port")
            assert found[0] is verdict
            assert said in found[1]
    nowhere = settings(tmp_path, {"api": {"host": "192.0.2.1", "port": 1}, "access": {"mode": "required"}})
    assert worst(look(nowhere, "port"), "port")[0] is FAIL


class answering:  # noqa: N801 - used as a function
    """An HTTP server that has these bodies, by path. Its port."""

    def __init__(self, bodies: Mapping[str, bytes]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = bodies.get(self.path)
                self.send_response(404 if body is None else 200)
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *arguments: object) -> None:
                """Say nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> int:
        self._thread.start()
        return self._server.server_port

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        joined(self._thread)
        self._server.server_close()


def test_a_certificate_is_looked_at_before_it_ends(tmp_path: Path) -> None:
    ends = datetime(2027, 1, 31, tzinfo=UTC)
    issued = trustme.CA().issue_cert(
        "calibration.example.org", not_before=datetime(2026, 1, 1, tzinfo=UTC), not_after=ends
    )
    files = {"tls_certfile": tmp_path / "tls.crt", "tls_keyfile": tmp_path / "tls.key"}
    files["tls_certfile"].write_bytes(issued.cert_chain_pems[0].bytes())
    files["tls_keyfile"].write_bytes(issued.private_key_pem.bytes())
    chosen = settings(tmp_path, {"api": {"port": 0, **{name: str(file) for name, file in files.items()}}})

    def on(day: datetime) -> tuple[CheckStatus, str]:
        return worst(look(chosen, "certificate", clock=ManualClock(int(day.timestamp() * 1000))), "certificate")

    assert on(ends - timedelta(days=14)) == (OK, f"{files['tls_certfile']} is valid until 2027-01-31 00:00 UTC")
    assert on(ends - timedelta(days=13))[0] is WARN
    assert on(ends)[0] is FAIL
    assert on(datetime(2025, 12, 31, tzinfo=UTC))[0] is FAIL
    files["tls_keyfile"].write_text("no key", encoding="utf-8")
    verdict, detail = on(ends - timedelta(days=14))
    assert verdict is FAIL
    assert "must be a certificate and its key" in detail
    assert look(settings(tmp_path), "certificate") == []


# ---------------------------------------------------------------------- Kafka


def on_kafka(folder: Path, broker: KafkaBroker, predictions: str, outcomes: str, **kafka: Any) -> Settings:
    servers = {"bootstrap_servers": [broker.bootstrap], "connect_timeout": "60s", **kafka}
    topics = {"predictions": predictions, "outcomes": outcomes}
    return settings(folder, {"source": {"kind": "kafka", "kafka": servers, "topics": topics}})


@pytest.mark.kafka
def test_a_sound_cluster_is_told(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    for topic in ("check-p", "check-o"):
        kafka_broker.create_topic(topic, 2, retention_ms="-1")
    kafka_broker.produce("check-p", [b"x"] * 9, keys=[b"%d" % key for key in range(9)])
    chosen = on_kafka(tmp_path, kafka_broker, "check-p", "check-o", group_id="check-nobody")
    found = look(chosen, "kafka")
    assert {each.verdict for each in found} == {OK}, found
    assert {each.check for each in found} == {"broker", "topics", "retention", "group", "clock", "keys"}
    assert "2 partitions" in worst(found, "topics")[1]
    assert re.search("check-nobody: nobody (has joined|is in) it", worst(found, "group")[1])
    behind = ManualClock(CLOCK.now_ms() - 60_000)
    verdict, detail = worst(look(chosen, "kafka", clock=behind), "clock")
    assert verdict is WARN
    assert "in this machine's future" in detail


@pytest.mark.kafka
def test_messages_without_a_key_and_in_partitions_of_others_are_told(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    for topic in ("check-no-key", "check-elsewhere"):
        kafka_broker.create_topic(topic, 2)
    kafka_broker.produce("check-no-key", [b"x"] * 4, keys=[None, b"7", None, b"7"])
    # The keys a, b and c belong in partition 0, and d in 1.
    kafka_broker.produce("check-elsewhere", [b"x"] * 4, keys=[b"a", b"b", b"c", b"d"], partition=1)
    found = look(on_kafka(tmp_path, kafka_broker, "check-no-key", "check-elsewhere"), "kafka")
    told = [each.detail for each in found if each.check == "keys" and each.verdict is WARN]
    assert len(told) == 2
    assert "of the newest 4 messages of check-no-key, 2 have no key" in told[0]
    assert "of the newest 4 messages of check-elsewhere, 3 are not in the partition of their key by murmur2" in told[1]


@pytest.mark.kafka
def test_topics_that_do_not_fit_are_told(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("check-three", 3, retention_ms="60000")
    kafka_broker.create_topic("check-four", 4, cleanup_policy="compact")
    chosen = on_kafka(tmp_path, kafka_broker, "check-three", "check-four")
    found = look(chosen, "kafka")
    assert worst(found, "topics")[0] is FAIL
    assert "check-three: 3, check-four: 4" in worst(found, "topics")[1]
    warnings = [each.detail for each in found if each.verdict is WARN]
    assert any("keeps 1m, less than the longest horizon" in detail for detail in warnings)
    assert any(
        "check-four has cleanup.policy compact" in detail and "tombstones: ignore" in detail for detail in warnings
    )
    of_all_types = {"source": {**chosen.source.model_dump(mode="json"), "topics": {"events": "check-four"}}}
    verdict, detail = worst(look(settings(tmp_path, of_all_types), "kafka"), "retention")
    assert verdict is FAIL
    assert "outcomes remove their predictions" in detail
    verdict, detail = worst(look(on_kafka(tmp_path, kafka_broker, "check-three", "check-none"), "kafka"), "topics")
    assert verdict is FAIL
    assert "topics that do not exist yet: check-none" in detail


@pytest.mark.kafka
def test_how_the_fields_of_messages_are_understood(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    for topic in ("check-mapped", "check-labels"):
        kafka_broker.create_topic(topic, 2)
    mapping = {"model": "=churn", "id": "request", "ts": "at", "p": "scores[]", "version": "tag"}
    topics = {"predictions": {"name": "check-mapped", "mapping": mapping}, "outcomes": "check-labels"}
    servers = {"bootstrap_servers": [kafka_broker.bootstrap], "connect_timeout": "60s"}
    chosen = settings(tmp_path, {"source": {"kind": "kafka", "kafka": servers, "topics": topics}})
    assert [each.detail for each in look(chosen, "messages")] == ["check-mapped: no messages yet"]

    at_ms = CLOCK.now_ms()
    good = [{"request": f"r{number}", "at": at_ms, "scores": [0.25, 0.5]} for number in range(200)]
    bad = [
        {"request": "bad", "at": at_ms, "scores": [0.25, 1.5]},
        {"request": "bad", "at": at_ms * 1000, "scores": [1]},
    ]
    good_values, bad_values = ([json.dumps(message).encode() for message in messages] for messages in (good, bad))
    kafka_broker.produce("check-mapped", [b"old", *good_values], partition=0)
    kafka_broker.produce("check-mapped", [*good_values, b"[", *bad_values], partition=1)
    found = look(chosen, "messages")
    expected = "check-mapped: 100 messages read, 195 events, 3 dead letters: "
    assert found[0].verdict is WARN
    assert found[0].detail.startswith(expected)
    assert {*found[0].detail.removeprefix(expected).split(", ")} == {
        "undecodable 1",
        "invalid_prediction 1",
        "time_out_of_range 1",
    }
    details = "\n".join(each.detail for each in found)
    assert "check-mapped: id from request in 100% of the events: " in details
    assert "check-mapped: p from scores[] in 100% of the events: 0.25; 0.5; 1" in details
    assert "check-mapped: model from =churn in 100% of the events: churn" in details
    assert "check-mapped: version from tag is in none of the events" in details


@pytest.mark.kafka
def test_a_refused_log_in_is_told_without_the_password(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    sasl = {
        "bootstrap_servers": [kafka_broker.address("SASL_PLAINTEXT")],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": USERNAME,
    }
    wrong = on_kafka(tmp_path, kafka_broker, "a", "b", **sasl, sasl_plain_password="canary")
    found = look(wrong, "kafka", "configuration")
    assert worst(found, "kafka")[0] is FAIL
    assert "refuses the log-in by PLAIN" in worst(found, "kafka")[1]
    assert "canary" not in repr(found)
    assert "unencrypted" in worst(found, "configuration")[1]
    right = on_kafka(tmp_path, kafka_broker, "a", "b", **sasl, sasl_plain_password=PASSWORD)
    assert worst(look(right, "kafka"), "broker")[0] is OK
    down = on_kafka(tmp_path, kafka_broker, "a", "b", bootstrap_servers=[f"127.0.0.1:{free_ports(1)[0]}"])
    verdict, detail = worst(look(down, "kafka"), "kafka")
    assert verdict is FAIL
    assert "cannot connect to Kafka" in detail
    assert "trying again" not in detail


# ---------------------------------------------------------------------- PostgreSQL


@pytest.fixture
def database(postgres_server: PostgresServer) -> str:
    return postgres_server.url(postgres_server.new_database())


@pytest.mark.postgres
def test_a_database_is_told_with_its_clock(tmp_path: Path, database: str) -> None:
    chosen = settings(tmp_path, {"store": {"url": database}})
    assert "is empty; the first start makes the tables" in worst(look(chosen, "store"), "store")[1]
    SqlStore.open(database, clock=SystemClock()).close()
    found = look(chosen, "store")
    assert worst(found, "store")[0] is OK
    assert "PostgreSQL" in worst(found, "store")[1]
    assert worst(found, "clock")[0] is OK
    for seconds, said in ((-3600, "ahead of"), (3600, "behind")):
        verdict, detail = worst(look(chosen, "store", clock=ManualClock(CLOCK.now_ms() + seconds * 1000)), "clock")
        assert verdict is WARN
        assert f"s {said} this machine's" in detail
    assert POSTGRES_PASSWORD not in repr(found)


@pytest.mark.postgres
def test_a_database_that_cannot_be_used_is_told(tmp_path: Path, postgres_server: PostgresServer, database: str) -> None:
    wrong = settings(tmp_path, {"store": {"url": f"postgresql://postgres:canary@127.0.0.1:{postgres_server.port}/x"}})
    verdict, detail = worst(look(wrong, "store"), "store")
    assert verdict is FAIL
    assert "password authentication failed" in detail
    assert "canary" not in detail
    down = settings(tmp_path, {"store": {"url": postgres_server.url("x", port=free_ports(1)[0])}})
    verdict, detail = worst(look(down, "store"), "store")
    assert verdict is FAIL
    assert "does not answer" in detail
    only_reads = settings(tmp_path, {"store": {"url": f"{database}?options=-c%20default_transaction_read_only%3Don"}})
    verdict, detail = worst(look(only_reads, "store"), "store")
    assert verdict is FAIL
    assert "default_transaction_read_only" in detail
