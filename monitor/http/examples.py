"""An example of each body, by the name of its schema. A test holds them to their schemas."""

from typing import Any, Final

from monitor.version import VERSION

_REPORT: Final[dict[str, Any]] = {
    "model": "churn",
    "version": "7",
    "segment": "all",
    "window": "24h",
    "from": "2026-11-19T10:00:00.000Z",
    "to": "2026-11-20T10:00:00.000Z",
    "n": 18211,
    "positives": 3127,
    "prevalence": 0.171709406402724,
    "mean_prediction": 0.203318447,
    "predictions": 20534,
    "label_coverage": 0.886870556151,
    "measures": {
        "tce": {
            "value": 61.3,
            "unit": "percent",
            "lower": None,
            "upper": None,
            "null_mean": 9.8,
            "null_q95": 15.2,
            "p_value": 0.005,
            "error_bound": 0.4,
        },
        "smce": {
            "value": 0.0317,
            "unit": "ratio",
            "lower": 0.0262,
            "upper": 0.0371,
            "null_mean": 0.0026,
            "null_q95": 0.0049,
            "p_value": 0.005,
            "error_bound": 3.1e-6,
        },
    },
    "canonical": {},
    "insufficient": None,
    "omitted": {},
    "decomposition": {"brier": {"miscalibration": 0.0021, "discrimination": 0.0312, "uncertainty": 0.1422}},
    "diagnosis": {
        "verdict": "prior_shift",
        "sentence": "Predictions are too high: 20.3% predicted, 17.2% came true. Add -0.26 (give or take 0.05) to "
        "every logit, which multiplies the odds by 0.77; beyond that no fault is seen, but with this many events a "
        "slope between 0.97 and 1.05 cannot be excluded.",
        "p_value": 2.1e-24,
        "offset": -0.2612,
        "offset_error": 0.0233,
        "slope": 1.012,
        "slope_error": 0.019,
        "slope_lower": 0.975,
        "slope_upper": 1.05,
        "error": 0.0317,
        "error_after_offset": 0.0024,
        "logit_error_after_offset": 0.018,
        "prior_shift_p_value": 0.41,
        "severity": "moderate",
        "tolerance": 0.05,
        "detectable_offset": 0.073,
        "detectable_slope_below": 0.93,
        "detectable_slope_above": 1.07,
    },
    "performance": {"accuracy": 0.8413, "auc": 0.7421, "average_precision": 0.4417, "log_loss": 0.3921},
    "intervals_outdated_since": None,
}

_CLASS_REPORT: Final[dict[str, Any]] = {
    **{key: _REPORT[key] for key in ("segment", "window", "from", "to", "n", "predictions", "label_coverage")},
    "model": "species",
    "version": "2",
    "classes": 3,
    "accuracy": 0.742,
    "prevalence": [0.51, 0.31, 0.18],
    "mean_prediction": [0.53, 0.30, 0.17],
    "measures": {
        "skce": {
            "value": 0.000193,
            "unit": "ratio",
            "lower": 0.000081,
            "upper": 0.000412,
            "null_mean": 0.0,
            "null_q95": 0.000012,
            "p_value": 3.1e-9,
            "error_bound": None,
            "method": "all events, 512 Fourier features of the kernel",
        }
    },
    "classwise": {
        "smce": {
            "value": 0.0121,
            "unit": "ratio",
            "lower": 0.0084,
            "upper": 0.0158,
            "null_mean": 0.0024,
            "null_q95": 0.0036,
            "p_value": 0.005,
            "error_bound": 0.0,
        }
    },
    "insufficient": None,
    "omitted": {},
    "top_label": {**_REPORT, "model": "species", "version": "2", "performance": None},
    "each_class": [{**_REPORT, "model": "species", "version": "2", "segment": f"class={name}"} for name in range(3)],
}

EXAMPLES: Final[dict[str, Any]] = {
    "ReportBody": _REPORT,
    "ClassReportBody": _CLASS_REPORT,
    "ReportsBody": {
        "evaluated_at": "2026-11-20T18:00:05.000Z",
        "evaluation": 1207,
        "failures": [],
        "next_cursor": None,
        "reports": [_REPORT],
    },
    "ModelsBody": {
        "models": [
            {
                "model": "churn",
                "state": "measured",
                "current_version": "7",
                "versions": [{"version": "7", "segments": ["all", "region=eu"], "windows": ["1h", "24h", "7d"]}],
                "watermark": "2026-11-20T18:00:00.000Z",
                "policy": {
                    "horizon_seconds": 86400.0,
                    "lateness_seconds": 3600.0,
                    "implied_negative": False,
                    "segments": ["region"],
                    "classes": [],
                },
                "report": "/v1/models/churn/report",
            }
        ],
        "next_cursor": None,
        "partitions": [0, 1, 2, 3],
    },
    "DataBody": {
        "p": [0.91, 0.32, 0.66, 0.67, 0.57, 0.98, 0.41, 0.19],
        "y": [1, 0, 1, 1, 0, 1, 0, 0],
        "model": "churn",
    },
    "TakenBody": {
        "accepted": 1,
        "rejected": 1,
        "errors": [{"index": 1, "reason": "invalid_outcome", "detail": "y must be 0 or 1, got 2"}],
    },
    "MeasuresBody": {
        "measures": [
            {
                "name": "tce",
                "title": "TCE",
                "help": "Percentage of predictions that an exact binomial test refutes.",
                "unit": "percent",
                "stands_in": "windows",
                "in_windows": True,
            }
        ]
    },
    "HealthBody": {"status": "ok", "version": VERSION},
    "ReadyBody": {"status": "ready", "partitions": [0, 1, 2, 3]},
}

PREDICTION: Final = {
    "type": "prediction",
    "model": "churn",
    "version": "7",
    "id": "7f3a",
    "ts": "2026-11-20T10:00:00Z",
    "p": 0.83,
    "segments": {"region": "eu"},
}

OUTCOME: Final = {"type": "outcome", "model": "churn", "id": "7f3a", "ts": "2026-11-20T18:00:00Z", "y": 1}
