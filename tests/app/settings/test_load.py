"""What monitor.yaml and the environment may say, and what is said of what they may not."""

import time
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.app.settings import Settings, load_settings
from monitor.app.settings.fields import anchor_of, leaves
from monitor.errors import SettingsError

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)
"""Ten levels of aliases, 4 billion values in all."""


def load(folder: Path, text: str, **environ: str) -> Settings:
    file = folder / "monitor.yaml"
    file.write_text(text, encoding="utf-8")
    return load_settings(file, environ)


def complaint(folder: Path, text: str, **environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load(folder, text, **environ)
    return str(caught.value).replace(f"{folder}/", "")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("source:\n  kind: kafak", "monitor.yaml:2: source.kind must be embedded or kafka, got 'kafak'"),
        ("sorce: {}", "monitor.yaml:1: unknown setting sorce; did you mean source?"),
        (
            "source: {kafka: {group: a}}",
            "monitor.yaml:1: unknown setting source.kafka.group; did you mean source.kafka.group_id?",
        ),
        (
            "\nbootstrap_servers: a:1",
            "monitor.yaml:2: unknown setting bootstrap_servers; did you mean source.kafka.bootstrap_servers?",
        ),
        (
            "log: {zzz: 1}",
            "monitor.yaml:1: unknown setting log.zzz; log has level, format",
        ),
        (
            "evaluation: {measures: [smce, surogate_intce]}",
            (
                "monitor.yaml:1: evaluation.measures must name measures (there is no measure 'surogate_intce'; "
                "did you mean surrogate_intce?), got ['smce', 'surogate_intce']"
            ),
        ),
        (
            "models: {declared: {zz/../churn: {horizon: 1d}}}",
            ("monitor.yaml:1: models.declared.zz/../churn must not have '.', '..' or nothing between slashes"),
        ),
        ("api: {port: 70000}", "monitor.yaml:1: api.port must be at most 65535, got 70000"),
        (
            "alerts: {webhooks: {oncall: {url: 'http://a:99999/'}}}",
            "monitor.yaml:1: alerts.webhooks.oncall.url must have a port from 1 to 65535, got 99999",
        ),
        (
            f"alerts: {{webhooks: {{oncall: {{url: 'http://{'a' * 70}.example/'}}}}}}",
            "monitor.yaml:1: alerts.webhooks.oncall.url must have a host whose parts between dots have 1 to 63",
        ),
        (
            "alerts: {external_url: 'https://a..b'}",
            "monitor.yaml:1: alerts.external_url must have a host whose parts between dots have 1 to 63",
        ),
        (
            "source: {registry: {url: 'http://registry:0'}}",
            "monitor.yaml:1: source.registry.url must have a port from 1 to 65535, got 0",
        ),
        (
            f"access: {{oidc: {{issuer: 'https://{'a' * 70}.example', audience: a}}}}",
            "monitor.yaml:1: access.oidc.issuer must have a host whose parts between dots have 1 to 63",
        ),
        ("api: {port: web}", "monitor.yaml:1: api.port must be a whole number, got 'web'"),
        ("api: {host: ''}", "monitor.yaml:1: api.host must not be empty, got ''"),
        ("caps: {models: 1.5}", "monitor.yaml:1: caps.models must be a whole number, got 1.5"),
        ("alerts: {detectors: {change: -1}}", "monitor.yaml:1: alerts.detectors.change must be at least 0.0, got -1"),
        (
            "alerts: {detectors: {calibration: 0, prevalence: 0, change: 0, serving_map: 0}}",
            (
                "monitor.yaml:1: alerts.detectors must have a weight above 0 for one detector at least, such as "
                "{calibration: 1}, or nothing is watched"
            ),
        ),
        (
            "alerts: {detectors: {calibration: 0}}\nmodels: {declared: {churn: {dependence: within_horizon}}}",
            (
                "monitor.yaml:1: alerts.detectors.calibration must be more than 0 where "
                "models.declared.churn.dependence is within_horizon: nothing else watches such a model"
            ),
        ),
        (
            "models: {declared: {churn: {alert_weight: 0}}}",
            "monitor.yaml:1: models.declared.churn.alert_weight must be more than 0.0, got 0",
        ),
        (
            "models: {defaults: {dependence: daily}}",
            "monitor.yaml:1: models.defaults.dependence must be independent or within_horizon, got 'daily'",
        ),
        ("dead_letters: {max_ratio: 0}", "monitor.yaml:1: dead_letters.max_ratio must be more than 0.0, got 0"),
        (
            "models: {only_declared: perhaps}",
            "monitor.yaml:1: models.only_declared must be true or false, got 'perhaps'",
        ),
        (
            "models: {defaults: {horizon: soon}}",
            (
                "monitor.yaml:1: models.defaults.horizon must be a duration such as 90s, 15m, 24h or 7d, "
                "or a number of seconds, got 'soon'"
            ),
        ),
        ("models: {defaults: {horizon: 0}}", "monitor.yaml:1: models.defaults.horizon must be at least 1s, got 0"),
        ("history: {retention: 0}", "monitor.yaml:1: history.retention must be at least 24h, got 0"),
        ("history: {retention: null}", "monitor.yaml:1: history.retention must be a duration"),
        (
            "models:\n  declared:\n    churn:\n      horizn: 3d",
            "monitor.yaml:4: unknown setting models.declared.churn.horizn; did you mean models.declared.churn.horizon?",
        ),
        (
            "models: {declared: {churn: 5}}",
            "monitor.yaml:1: models.declared.churn must be a section of `key: value` lines, got 5",
        ),
        ("source: 5", "monitor.yaml:1: source must be a section of `key: value` lines, got 5"),
        ("windows: 1h", "monitor.yaml:1: windows must be a list, got '1h'"),
        (
            "windows:\n  - {length: 1h, name: quick, mature: false}",
            "monitor.yaml:2: windows[0].name must have the word immature in it where mature is false",
        ),
        (
            "windows:\n  - length: 1h\n  - mature: false",
            (
                "monitor.yaml:3: windows[1] must have a length, such as {length: 24h}, or a number of predictions, "
                "such as {last: 10000}"
            ),
        ),
        ("windows: [{length: 1h}, {length: 60m}]", "monitor.yaml:1: windows must have different names, got 1h twice"),
        ("windows: []", "monitor.yaml:1: windows must have at least one window, such as [{length: 24h}]"),
        (
            "source: {topics: {events: 'a b'}}",
            "monitor.yaml:1: source.topics.events.name must be 1 to 249 letters, digits, '.', '_' or '-', got 'a b'",
        ),
        (
            "source: {topics: {predictions: x, outcomes: x}}",
            (
                "monitor.yaml:1: source.topics must name a different topic for each type of event, "
                "or one topic as events: ['x', 'x']"
            ),
        ),
        (
            "source: {kafka: {sasl_mechanism: PLAIN}}",
            (
                "monitor.yaml:1: source.kafka.security_protocol must be SASL_SSL or SASL_PLAINTEXT "
                "when sasl_mechanism is set, got PLAINTEXT"
            ),
        ),
        (
            "source: {kafka: {security_protocol: SASL_SSL}}",
            "monitor.yaml:1: source.kafka.sasl_mechanism must be set when security_protocol is SASL_SSL",
        ),
        ("api: {port: 1}\napi: {port: 2}", "monitor.yaml:2: api is given twice"),
        ("a: [1\nb: 2", "monitor.yaml:2:2: not valid YAML: did not find expected ',' or ']'"),
        ("[1, 2]", "monitor.yaml: must be sections of `key: value` lines, got list"),
        (LAUGHS, "monitor.yaml: not valid YAML: it holds 4,"),
        (f"{LAUGHS}? *a9\n: 1\n", "monitor.yaml: not valid YAML: it holds 8,"),
        ("[" * 5_000, "monitor.yaml:1:1001: not valid YAML: exceeded maximum nesting depth"),
        ("&a [*a]", "monitor.yaml: not valid YAML: it is nested too deeply, or holds itself"),
        (
            "a: !!python/object:os.system x",
            "monitor.yaml:1:4: not valid YAML: could not determine a constructor for the tag",
        ),
    ],
)
def test_what_is_wrong_is_one_line_with_place_key_value_and_what_is_allowed(
    tmp_path: Path, text: str, line: str
) -> None:
    said = complaint(tmp_path, text)
    assert said.startswith(line)
    assert "\n" not in said


def test_each_wrong_setting_has_a_line_of_its_own(tmp_path: Path) -> None:
    said = complaint(tmp_path, "api: {port: x}\nlog: {level: loud}")
    assert [line.split()[1] for line in said.splitlines()] == ["api.port", "log.level"]


def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(SettingsError, match="cannot read /dev/zero: it is larger than 64 MiB"):
        load_settings(Path("/dev/zero"), {})


def test_thousands_of_models_are_read_in_time_that_grows_with_their_number(tmp_path: Path) -> None:
    def seconds(models: int) -> float:
        text = "models:\n  declared:\n" + "".join(f"    m{n}: {{horizon: 2h}}\n" for n in range(models))
        began = time.process_time()
        assert len(load(tmp_path, text).models.declared) == models
        return time.process_time() - began

    seconds(100)
    assert seconds(8_000) < 4 * 4 * seconds(2_000)


@pytest.mark.parametrize("key", ["sasl_plain_password", "ssl_password"])
def test_a_wrong_secret_is_not_shown(tmp_path: Path, key: str) -> None:
    said = complaint(tmp_path, f"source: {{kafka: {{{key}: [hunter2]}}}}")
    assert said == f"monitor.yaml:1: source.kafka.{key} must be text, got a value that is not shown"


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "source: {kafka: {group_id: from-file, client_id: kept}}\nmodels: {declared: {Churn: {horizon: 1d}}}",
        MONITOR__SOURCE__KAFKA__GROUP_ID="from-env",
        MONITOR__SOURCE__KAFKA__BOOTSTRAP_SERVERS="a:1, b:2",
        MONITOR__MODELS__DECLARED__Churn__SEGMENTS="region",
        MONITOR__WINDOWS="[{length: 2h}, {last: 500, mature: false}]",
        MONITOR__API__PORT="81",
        MONITOR__MODELS__ONLY_DECLARED="true",
        MONITOR__SOURCE__KAFKA__SSL_PASSWORD="0123",
        MONITOR__SOURCE__TOPICS__EVENTS="",
        MONITORING="not ours",
    )
    assert settings.source.kafka.group_id == "from-env"
    assert settings.source.kafka.client_id == "kept"
    assert settings.source.kafka.bootstrap_servers == ("a:1", "b:2")
    assert settings.models.declared["Churn"].horizon == timedelta(days=1)
    assert settings.models.declared["Churn"].segments == ("region",)
    assert [window.title for window in settings.windows] == ["2h", "last-500-immature"]
    assert settings.api.port == 81
    assert settings.models.only_declared
    password = settings.source.kafka.ssl_password
    assert password is not None
    assert password.get_secret_value() == "0123"
    assert settings.source.topics.events is None


@pytest.mark.parametrize(
    ("variable", "value", "line"),
    [
        ("MONITOR__SOURC__KIND", "x", "MONITOR__SOURC__KIND: unknown setting sourc; did you mean source?"),
        (
            "MONITOR__SOURCE__KIND",
            "x",
            "MONITOR__SOURCE__KIND: source.kind must be embedded or kafka, got 'x'",
        ),
        ("MONITOR__WINDOWS", "[", "MONITOR__WINDOWS: the value is not valid YAML or JSON"),
        ("MONITOR__WINDOWS", "&a [*a]", "MONITOR__WINDOWS: the value is not valid YAML or JSON"),
        (
            "MONITOR__SOURCE__KAFKA__SSL_PASSWORD_FILE",
            "/nowhere/at/all",
            (
                "MONITOR__SOURCE__KAFKA__SSL_PASSWORD_FILE: cannot read the file '/nowhere/at/all': "
                "No such file or directory"
            ),
        ),
    ],
)
def test_a_wrong_variable_is_named(variable: str, value: str, line: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(None, {variable: value})
    assert str(caught.value) == line


def test_a_secret_may_come_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hunter2\n", encoding="utf-8")
    settings = load_settings(None, {"MONITOR__SOURCE__KAFKA__SASL_PLAIN_PASSWORD_FILE": str(secret)})
    password = settings.source.kafka.sasl_plain_password
    assert password is not None
    assert password.get_secret_value() == "hunter2"


def test_a_value_where_a_section_belongs_is_mended_in_the_file(tmp_path: Path) -> None:
    said = complaint(tmp_path, "source: 5", MONITOR__SOURCE__KAFKA__GROUP_ID="a")
    assert said == "monitor.yaml:1: source must be a section of `key: value` lines, got 5"


def test_a_missing_file_says_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"No such file or directory; `monitor config --default > .*` writes one"):
        load_settings(tmp_path / "none.yaml", {})


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "monitor.yaml"
    file.write_bytes(b"log: {level: \xff}")
    with pytest.raises(SettingsError, match=r"it is not UTF-8 \(byte 13\)"):
        load_settings(file, {})


def test_an_empty_file_means_the_defaults(tmp_path: Path) -> None:
    assert load(tmp_path, "# nothing\n") == load_settings(None, {})


@pytest.mark.parametrize(
    ("named", "in_force"),
    [
        ({}, {"events": "calibration-events"}),
        ({"events": "e"}, {"events": "e"}),
        ({"predictions": "p", "outcomes": "o"}, {"predictions": "p", "outcomes": "o"}),
    ],
)
def test_topics_that_are_not_named_are_not_read(named: dict[str, str], in_force: dict[str, str]) -> None:
    settings = Settings.model_validate({"source": {"topics": named}})
    assert {key: topic.name for key, topic in settings.source.topics.read.items()} == in_force


def paths_of(settings: Settings) -> dict[str, str | None]:
    kafka, api, access = settings.source.kafka, settings.api, settings.access
    registry, predictions = settings.source.registry, settings.source.topics.predictions
    return {
        "directory": settings.source.embedded.directory,
        "url": settings.store.url,
        "ssl_cafile": kafka.ssl_cafile,
        "ssl_certfile": kafka.ssl_certfile,
        "ssl_keyfile": kafka.ssl_keyfile,
        "tls_certfile": api.tls_certfile,
        "tls_keyfile": api.tls_keyfile,
        "keys_file": access.keys_file,
        "cafile": access.oidc.cafile,
        "registry.ssl_cafile": registry.ssl_cafile,
        "registry.ssl_certfile": registry.ssl_certfile,
        "registry.ssl_keyfile": registry.ssl_keyfile,
        "registry.cache": registry.cache,
        "schema_file": None if predictions is None else predictions.schema_file,
    }


ALL_PATHS = """
source:
  embedded: {directory: data/log}
  kafka: {ssl_cafile: ca.pem, ssl_certfile: me.pem, ssl_keyfile: me.key}
  registry: {ssl_cafile: registry.pem, ssl_certfile: me.pem, ssl_keyfile: me.key, cache: schemas}
  topics: {predictions: {name: scores, format: avro, schema_file: scores.avsc}}
store: {url: "sqlite:///data/state.db?timeout=5"}
api: {tls_certfile: tls.crt, tls_keyfile: tls.key}
access: {keys_file: keys.yaml, oidc: {cafile: idp.pem}}
"""


def test_relative_paths_of_a_file_begin_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    etc, work = tmp_path / "etc", tmp_path / "work"
    etc.mkdir()
    work.mkdir()
    monkeypatch.chdir(work)
    (etc / "monitor.yaml").write_text(ALL_PATHS, encoding="utf-8")
    for file in (etc / "monitor.yaml", Path("../etc/monitor.yaml")):
        assert paths_of(load_settings(file, {})) == {
            "directory": f"{etc}/data/log",
            "url": f"sqlite:///{etc}/data/state.db?timeout=5",
            "ssl_cafile": f"{etc}/ca.pem",
            "ssl_certfile": f"{etc}/me.pem",
            "ssl_keyfile": f"{etc}/me.key",
            "tls_certfile": f"{etc}/tls.crt",
            "tls_keyfile": f"{etc}/tls.key",
            "keys_file": f"{etc}/keys.yaml",
            "cafile": f"{etc}/idp.pem",
            "registry.ssl_cafile": f"{etc}/registry.pem",
            "registry.ssl_certfile": f"{etc}/me.pem",
            "registry.ssl_keyfile": f"{etc}/me.key",
            "registry.cache": f"{etc}/schemas",
            "schema_file": f"{etc}/scores.avsc",
        }


def test_every_setting_whose_name_is_that_of_a_path_is_one() -> None:
    named = [leaf for leaf in leaves() if leaf.path[-1].endswith(("file", "directory", "url"))]
    assert [leaf.path for leaf in named if anchor_of(leaf.field) is None] == [
        ("source", "registry", "url"),
        ("alerts", "external_url"),
        ("access", "oidc", "jwks_url"),
    ]
    # Three are no paths; the folder of the cache is called otherwise, and a topic's file is not there by default.
    assert len(named) == len(paths_of(Settings())) + 3 - 2


def test_relative_paths_of_the_environment_and_of_the_defaults_begin_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    etc, work = tmp_path / "etc", tmp_path / "work"
    etc.mkdir()
    work.mkdir()
    monkeypatch.chdir(work)
    settings = load(etc, "access: {keys_file: keys.yaml}", MONITOR__SOURCE__EMBEDDED__DIRECTORY="log")
    assert settings.source.embedded.directory == f"{work}/log"
    assert settings.store.url == f"sqlite:///{work}/monitor-data/state.db"
    assert settings.access.keys_file == f"{etc}/keys.yaml"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("sqlite:////var/lib/state.db", "sqlite:////var/lib/state.db"),
        ("sqlite:///~/state.db", "sqlite:///~/state.db"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("sqlite+pysqlite:///a/state.db", "sqlite+pysqlite:///{}/a/state.db"),
        ("postgresql://u:p@db/x", "postgresql://u:p@db/x"),
        (
            "postgresql://db/x?sslmode=verify-full&sslrootcert=my%20ca.pem&sslcert=/c.pem",
            "postgresql://db/x?sslmode=verify-full&sslrootcert={}/my%20ca.pem&sslcert=/c.pem",
        ),
        ("postgresql://db/x?sslrootcert=system", "postgresql://db/x?sslrootcert=system"),
    ],
)
def test_a_store_is_found_from_the_file_that_names_it(tmp_path: Path, given: str, read: str) -> None:
    assert load(tmp_path, f"store: {{url: '{given}'}}").store.url == read.format(tmp_path)


def test_a_path_that_is_no_text_is_refused_as_ever(tmp_path: Path) -> None:
    assert complaint(tmp_path, "store: {url: 5}").startswith("monitor.yaml:1: store.url must be text")
    assert (
        complaint(tmp_path, "access: {keys_file: ''}") == "monitor.yaml:1: access.keys_file must not be empty, got ''"
    )
    assert complaint(tmp_path, "store: 7").startswith("monitor.yaml:1: store must be a section")


def test_roles_are_named_and_at_least_one(tmp_path: Path) -> None:
    assert load(tmp_path, "{}").roles == ("consume", "evaluate", "serve")
    assert load(tmp_path, "{}", MONITOR__ROLES="evaluate, serve").roles == ("evaluate", "serve")
    wrong = "monitor.yaml:1: roles[0] must be consume, evaluate or serve, got 'read'"
    assert complaint(tmp_path, "roles: [read]") == wrong
    assert "roles must name at least one of consume, evaluate, serve" in complaint(tmp_path, "roles: []")
