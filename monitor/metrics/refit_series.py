"""The series of recalibration, by name: refits, what serves, and raw beside recalibrated scores.

Refits and what serves are in the store, so every replica that knows a model says the same of them: take the maximum
over replicas, and not the sum.
"""

from typing import Final

from monitor.metrics.series import Series

VERSION_LABELS: Final = ("model", "version")
MAP_LABELS: Final = (*VERSION_LABELS, "map")
"""``map`` is ``none``, ``champion`` or ``candidate``."""
RESULT_LABELS: Final = ("model", "result")
"""``result`` is ``failed``, ``rejected`` or ``passed``."""

CHAMPION_ACTIVE: Final = Series(
    "calibration_champion_active",
    "gauge",
    VERSION_LABELS,
    "",
    "1 where a map serves, 0 where it was taken back and none does. Absent where none ever did.",
)
CHAMPION_TIMESTAMP: Final = Series(
    "calibration_champion_timestamp_seconds",
    "gauge",
    VERSION_LABELS,
    "seconds",
    "When what serves now, a map or none, came to serve, seconds since the epoch. Absent where no map ever served.",
)
MAP_EVENTS: Final = Series(
    "calibration_map_events",
    "gauge",
    MAP_LABELS,
    "",
    "Sampled labelled events that a map is measured on: those that no refit of the maps shown saw.",
)
MAP_LOG10_E: Final = Series(
    "calibration_map_log10_e_value",
    "gauge",
    (*MAP_LABELS, "against"),
    "",
    "Decimal logarithm of the e-value that a map is better on these events than the one, or none, that it is weighed "
    "against. From 1.3 on, at one look, chance has less than 1 in 20.",
)
MAP_MISSING: Final = Series(
    "calibration_map_missing",
    "gauge",
    MAP_LABELS,
    "",
    "1 where a map cannot be read, or does not fit the events, so that it is not measured; 0 elsewhere.",
)
MAP_CHANGED: Final = Series(
    "calibration_map_changed_timestamp_seconds",
    "gauge",
    VERSION_LABELS,
    "seconds",
    "When the events or maps that were measured last changed, seconds since the epoch.",
)
MAPS_LOOKED: Final = Series(
    "calibration_maps_evaluation_timestamp_seconds",
    "gauge",
    (),
    "seconds",
    "When all maps were last looked at, seconds since the epoch. Absent before the first time.",
)
MAPS_DURATION: Final = Series(
    "calibration_maps_evaluation_duration_seconds",
    "gauge",
    (),
    "seconds",
    "What looking at all maps took the last time, without the rests in between. Absent before the first time.",
)
MAPS_LEFT_OUT: Final = Series(
    "calibration_maps_left_out",
    "gauge",
    (),
    "",
    "Versions of models whose maps are measured, and not exported because there would be too many series.",
)
REFITS: Final = Series(
    "calibration_refits_total",
    "counter",
    RESULT_LABELS,
    "",
    "Refits that ended, over all time and replicas: it is counted in the store, so that it outlives the process. "
    "passed: there is a better map, whether it serves or not; rejected: it is not better; failed: there is none.",
)
REFIT_UNDER_WAY: Final = Series(
    "calibration_refit_under_way",
    "gauge",
    ("model",),
    "",
    "1 while a refit of the model is queued or running on any replica, else 0.",
)
REFIT_TIMESTAMP: Final = Series(
    "calibration_refit_timestamp_seconds",
    "gauge",
    RESULT_LABELS,
    "seconds",
    "When the last refit with this result ended, seconds since the epoch. Absent before the first.",
)
REFIT_DURATION: Final = Series(
    "calibration_refit_duration_seconds",
    "gauge",
    RESULT_LABELS,
    "seconds",
    "How long the last refit with this result ran. Absent before the first.",
)

RECALIBRATION: Final = (
    CHAMPION_ACTIVE,
    CHAMPION_TIMESTAMP,
    MAP_EVENTS,
    MAP_LOG10_E,
    MAP_MISSING,
    MAP_CHANGED,
    MAPS_LOOKED,
    MAPS_DURATION,
    MAPS_LEFT_OUT,
    REFITS,
    REFIT_UNDER_WAY,
    REFIT_TIMESTAMP,
    REFIT_DURATION,
)
