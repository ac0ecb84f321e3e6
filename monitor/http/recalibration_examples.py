"""An example of each body of recalibration, by the name of its schema. A test holds them to their schemas."""

from typing import Any, Final

_ID: Final = "rc_5e2c8f0b7d1a4936"
_PATH: Final = f"/v1/recalibrations/{_ID}"

_MEASURE: Final = {
    "value": 0.0317,
    "unit": "ratio",
    "lower": 0.0262,
    "upper": 0.0371,
    "null_mean": 0.0026,
    "null_q95": 0.0049,
    "p_value": 0.005,
}
_AFTER: Final = {**_MEASURE, "value": 0.0031, "lower": 0.0, "upper": 0.0068, "p_value": 0.31}
_DIFFERENCE: Final = {
    "e_value": 48210.7,
    "log10_e": 4.68,
    "brier_difference": -0.0041,
    "lower": -0.0052,
    "upper": -0.003,
}

_SUMMARY: Final[dict[str, Any]] = {
    "id": _ID,
    "model": "churn",
    "version": "7",
    "method": "beta",
    "options": {},
    "window": "7d",
    "promote": False,
    "trigger": "request",
    "actor": "anonymous",
    "state": "candidate",
    "progress": 1.0,
    "step": "done",
    "reason": None,
    "attempts": 1,
    "requested_at": "2026-11-21T08:00:00.000Z",
    "started_at": "2026-11-21T08:00:00.412Z",
    "finished_at": "2026-11-21T08:00:09.118Z",
    "baseline": None,
    "links": {
        "self": _PATH,
        "page": f"/recalibrations/{_ID}",
        "artifact": f"{_PATH}/artifact",
        "promotion": f"{_PATH}/promotion",
        "figures": {"reliability": f"{_PATH}/figures/reliability"},
        "model": "/v1/models/churn/recalibration",
    },
}

_COMPARISON: Final[dict[str, Any]] = {
    "fit": {
        "n": 14000,
        "from": "2026-11-14T08:00:00.000Z",
        "to": "2026-11-19T05:12:41.000Z",
        "data_hash": "3f7d0f6e3c9b7c55a5f1ce9e0ea7d1b2",
        "changed_at": None,
        "left_out": {},
    },
    "held_out": {
        "n": 6000,
        "from": "2026-11-19T05:12:41.000Z",
        "to": "2026-11-21T07:00:00.000Z",
        "data_hash": "c0d4b9e8f0aa4b27b1f9b7d1a53c1c44",
        "weighted": False,
    },
    "maps": {
        "none": {
            "id": None,
            "method": "identity",
            "describe": "leaves predictions as they are",
            "measures": {"smce": _MEASURE},
            "verdict": {"verdict": "shape_miscalibration", "sentence": "Predictions are too sure of themselves."},
            "local": None,
        },
        "champion": None,
        "challenger": {
            "id": _ID,
            "method": "beta",
            "describe": "a = 0.71, b = 0.69, c = -0.02",
            "measures": {"smce": _AFTER},
            "verdict": {"verdict": "calibrated", "sentence": "No fault is seen."},
            "local": None,
        },
    },
    "segments": [],
    "evidence": {"against_none": _DIFFERENCE, "against_champion": None},
    "guard": {"passed": True, "reasons": ["better than no map on 6,000 later events: e-value 48,211, at least 20"]},
    "decision": {},
}

_CHAMPION: Final = {
    "model": "churn",
    "version": "7",
    "map": _ID,
    "since": "2026-11-21T08:05:13.000Z",
    "revision": 1,
    "artifact": f"{_PATH}/artifact",
}

EXAMPLES: Final[dict[str, Any]] = {
    "RefitRequestBody": {"method": "beta", "window": "7d"},
    "NoteBody": {"note": "agreed with the pricing team"},
    "RollbackBody": {"version": "7", "note": "complaints since noon"},
    "ApplyRequestBody": {
        "p": [0.91, 0.32],
        "features": [[0.1, -2.3], "zczMPTMzE8A="],
        "segments": {"region": ["eu", None]},
    },
    "RefitBody": {**_SUMMARY, "comparison": _COMPARISON},
    "RefitsBody": {"recalibrations": [_SUMMARY], "next_cursor": None},
    "ArtifactBody": {
        "format": 1,
        "method": "beta",
        "classes": 2,
        "feature_count": None,
        "segment_key": None,
        "settings": {"a": 0.71, "b": 0.69, "c": -0.02},
        "shapes": {},
        "types": {},
        "about": {"id": _ID, "model": "churn", "version": "7"},
        "sha256": "5f0c2b7e9d3a4c1886f7e2d90b1a6c354e8d7f60a9b2c3d4e5f60718293a4b5c",
        "arrays": {},
    },
    "ChampionBody": _CHAMPION,
    "AppliedBody": {"model": "churn", "version": "7", "map": _ID, "p": [0.842, 0.371], "note": None},
    "RecalibrationBody": {
        "model": "churn",
        "version": "7",
        "serves": _CHAMPION,
        "under_way": None,
        "candidate": None,
        "settings": {
            "method": "beta",
            "options": {},
            "window": None,
            "promotion": "manual",
            "schedule": "0 3 * * *",
            "on_verdict": False,
            "next": "2026-11-22T03:00:00.000Z",
        },
        "live": None,
    },
    "MethodsBody": {
        "methods": [
            {
                "name": "histogram",
                "title": "Histogram binning",
                "meaning": "Gives each bin of predictions the rate of its outcomes.",
                "binary": True,
                "many_classes": False,
                "needs_features": False,
                "needs_segments": False,
                "options": [
                    {
                        "name": "bins",
                        "kind": "whole",
                        "default": 15,
                        "meaning": "Number of bins.",
                        "choices": [],
                        "above": None,
                        "at_least": 1.0,
                        "at_most": 1000.0,
                    }
                ],
            }
        ]
    },
    "AuditBody": {
        "entries": [
            {
                "number": 4,
                "at": "2026-11-21T08:05:13.000Z",
                "actor": "anonymous",
                "action": "promoted",
                "model": "churn",
                "version": "7",
                "subject": _ID,
                "detail": {"note": "agreed with the pricing team"},
            }
        ],
        "next_cursor": None,
    },
}
