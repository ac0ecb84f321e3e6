"""The settings of recalibration: what is completed from where, and what is refused in which words."""

from pathlib import Path

import pytest

from monitor.app.settings import Settings, load_settings
from monitor.errors import SettingsError
from monitor.recalibration.plan import RefitPlan


def refused(tmp_path: Path, text: str) -> str:
    file = tmp_path / "monitor.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as error:
        load_settings(file, {})
    return str(error.value).removeprefix(f"{file}:1: ")


def test_a_declared_model_differs_in_what_it_names_alone() -> None:
    models = Settings.model_validate(
        {
            "models": {
                "defaults": {"recalibration": {"schedule": "0 3 * * *", "options": {"parameters": "am"}}},
                "declared": {
                    "churn": {"recalibration": {"promotion": "automatic"}},
                    "fraud": {"recalibration": {"method": "lore", "window": "7d", "schedule": "never"}},
                    "plain": {},
                },
            }
        }
    ).models
    defaults = models.defaults.recalibration
    assert models.of("plain").recalibration == models.of("another").recalibration == defaults
    assert models.of("churn").recalibration == defaults.model_copy(update={"promotion": "automatic"})
    fraud = models.of("fraud").recalibration
    # Options of the defaults are those of their method.
    assert (fraud.method, fraud.options, fraud.cron) == ("lore", {}, None)
    assert defaults.cron == "0 3 * * *"


@pytest.mark.parametrize(
    ("refits", "says"),
    [
        ("{method: betta}", "method must name a recalibration method (there is no recalibration method 'betta'; did"),
        ("{options: {gamma: 1}}", "options: beta has no option 'gamma'; it has"),
        ("{method: lore, options: {gamma: [1]}}", "options: option gamma of lore must be a number, got [1]"),
        ("{options: 3}", "options must be a section of `key: value` lines, got 3"),
        ("{schedule: '61 3 * * *'}", "schedule must be a cron expression such as '0 3 * * *' (Bad minute), got '61 3"),
        ("{schedule: '0 0 31 2 *'}", "schedule must be a cron expression"),
        ("{schedule: hourly}", "schedule must be a cron expression of five fields (minute, hour, day of month, month,"),
        ("{window: 0s}", "window must be at least 1s, got '0s'"),
        ("{promotion: auto}", "promotion must be manual or automatic, got 'auto'"),
        ("{on_verdict: maybe}", "on_verdict must be true or false, got 'maybe'"),
        ("{metod: beta}", "did you mean models."),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, refits: str, says: str) -> None:
    for where in ("defaults", "declared: {churn"):
        text = f"models: {{{where}: {{recalibration: {refits}}}}}" + ("}" if "{" in where else "")
        assert says in refused(tmp_path, text)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("sample", "-1", "recalibration.sample must be at least 0, got -1"),
        ("jobs", "-1", "recalibration.jobs must be at least 0, got -1"),
        ("held_out", "1", "recalibration.held_out must be less than 1, got 1"),
        ("held_out", "0", "recalibration.held_out must be more than 0, got 0"),
        ("timeout", "0s", "recalibration.timeout must be at least 1s, got '0s'"),
        ("keep", "0", "recalibration.keep must be at least 1, got 0"),
    ],
)
def test_limits_of_all_refits(tmp_path: Path, key: str, value: str, says: str) -> None:
    assert refused(tmp_path, f"recalibration: {{{key}: {value}}}") == says


def test_variables_override_them() -> None:
    settings = load_settings(
        None,
        {
            "MONITOR__RECALIBRATION__SAMPLE": "5",
            "MONITOR__MODELS__DEFAULTS__RECALIBRATION__METHOD": "lore",
            "MONITOR__MODELS__DEFAULTS__RECALIBRATION__OPTIONS": "{gamma: 0.2}",
            "MONITOR__MODELS__DECLARED__Churn__RECALIBRATION__SCHEDULE": "0 3 * * 1",
        },
    )
    assert settings.recalibration.sample == 5
    assert settings.models.of("Churn").recalibration == RefitPlan(
        method="lore", options={"gamma": 0.2}, schedule="0 3 * * 1"
    )


@pytest.mark.parametrize(
    ("models", "says"),
    [
        (
            "{declared: {triage: {classes: 3, recalibration: {method: platt}}}}",
            "models.declared.triage.recalibration: method 'platt' is not for predictions over 3 classes",
        ),
        (
            "{defaults: {recalibration: {schedule: '0 3 * * *'}}, declared: {churn: {}, triage: {classes: 3}}}",
            "declared.triage.recalibration: method 'beta' is not for predictions over 3 classes",
        ),
        (
            "{declared: {churn: {recalibration: {method: vector_scaling, on_verdict: true}}}}",
            "declared.churn.recalibration: method 'vector_scaling' is not for predictions P(y = 1)",
        ),
        (
            "{declared: {churn: {recalibration: {method: group_wise_beta}}}}",
            "declared.churn.recalibration: method 'group_wise_beta' needs segments",
        ),
        (
            "{declared: {churn: {segments: [region], recalibration: {method: lore_groups, options: {segment: tier}}}}}",
            "declared.churn.recalibration: option segment of lore_groups must be one of region, as declared",
        ),
    ],
)
def test_a_method_that_the_model_cannot_have_is_refused(tmp_path: Path, models: str, says: str) -> None:
    assert says in refused(tmp_path, f"models: {models}")


@pytest.mark.parametrize(
    "models",
    [
        {"declared": {"triage": {"classes": 3}}},
        {
            "declared": {
                "triage": {"classes": 3, "recalibration": {"method": "vector_scaling", "schedule": "0 3 * * *"}}
            }
        },
        {
            "defaults": {"recalibration": {"schedule": "0 3 * * *"}},
            "declared": {"triage": {"classes": 3, "recalibration": {"schedule": "never"}}},
        },
        {
            "defaults": {"segments": ["region"]},
            "declared": {"churn": {"recalibration": {"method": "group_wise_beta"}}},
        },
    ],
)
def test_what_nobody_asks_for_by_itself_is_not_refused(models: dict[str, object]) -> None:
    Settings.model_validate({"models": models})
