"""Conditions of `monitor report --fail-if`, which stop a pipeline."""

import difflib
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from monitor.classes import CLASS_MEASURES
from monitor.errors import InputError, NotEnoughData
from monitor.measures import MEASURES
from monitor.options import Option
from monitor.reports.evaluation.report import Diagnosis, MeasureResult, Performance, Severity, Verdict
from monitor.reports.evaluation.segments import FALSE_DISCOVERY_RATE
from monitor.reports.formatting import printable

_FORM: Final = re.compile(r"(segments\.)?([a-z_][a-z0-9_]*)(?:\.([a-z0-9_]+))?\s*(?:(>=|<=|==|!=|>|<)\s*([^\s<>=!]+))?")
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_COUNTS: Final = ("n", "positives", "predictions", "prevalence", "mean_prediction", "label_coverage")
_SCORES: Final = tuple(field.name for field in fields(Performance))
_NUMBERS_OF_DIAGNOSIS: Final = tuple(
    field.name for field in fields(Diagnosis) if field.name not in {"verdict", "sentence", "severity"}
)
_FIELDS: Final = tuple(field.name for field in fields(MeasureResult) if field.name != "unit")
_WORDS: Final[Mapping[str, Sequence[str]]] = {"verdict": list(Verdict), "severity": list(Severity)}


@dataclass(frozen=True, slots=True)
class FailCondition:
    """One condition: ``verdict``, ``severity>=moderate``, ``smce>0.02``, ``tce.lower>10``, ``segments.smce>0.1``.

    Attributes
    ----------
    text
        The condition as it was given.
    name, field
        What is compared: verdict, severity, a number of the report, or a measure and one of its fields.
    comparison, limit
        The operator and the limit; None and "" for ``verdict`` alone, which holds if the verdict names a fault.
    of_segments
        Whether it is about the segments: it holds if it does so for one of them.
    """

    text: str
    name: str
    field: str | None
    comparison: str | None
    limit: float | str
    of_segments: bool = False

    @classmethod
    def parse(cls, text: str) -> "FailCondition":
        """Parse a condition. Raises InputError, which names the nearest name."""
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise InputError(
                f"{Option.FAIL_IF} must be like verdict, severity>=moderate or smce>0.02, got {text!r} (quote it: the "
                "shell reads < and > itself)"
            )
        prefix, name, field, comparison, limit = match.groups()
        of_segments = prefix is not None
        _check_name(text, name, field)
        if comparison is None:
            if name != "verdict":
                raise InputError(f"{Option.FAIL_IF} {text!r}: say how {name} is compared, such as {_example(name)}")
            return cls(text, name, field, None, "", of_segments)
        if name in _WORDS:
            if limit not in _WORDS[name]:
                raise InputError(
                    f"{Option.FAIL_IF} {text!r}: {name} is one of {', '.join(_WORDS[name])}, got {limit!r}"
                )
            if name == "verdict" and comparison not in {"==", "!="}:
                raise InputError(f"{Option.FAIL_IF} {text!r}: a verdict is compared by == and != alone")
            return cls(text, name, field, comparison, limit, of_segments)
        try:
            return cls(text, name, field, comparison, float(limit), of_segments)
        except ValueError:
            raise InputError(f"{Option.FAIL_IF} {text!r}: {name} is compared with a number, got {limit!r}") from None

    def failure(self, report: Mapping[str, Any]) -> str | None:
        """Describe why the condition holds for a report, as printed by ``--json``; None if it does not hold.

        Raises
        ------
        NotEnoughData
            The report lacks the value, or has no segments: a pipeline must not pass for lack of data.
        """
        if not self.of_segments:
            return self._failure_of(report)
        if "segments" not in report and "found_segments" not in report:
            self._refuse(f"the report has no segments; name their columns with {Option.SEGMENT}")
        segments = [*report.get("segments", ()), *report.get("found_segments", {}).get("segments", ())]
        # The worst come first. Of a segment with too little data nothing can be said: the whole is the place for that.
        failures = (self._failure_of(one) for one in segments if self._is_decided(one))
        return next((failure for failure in failures if failure is not None), None)

    def _is_decided(self, segment: Mapping[str, Any]) -> bool:
        """Whether a segment has enough outcomes; a verdict on one of many counts where it is significant."""
        if self.name in {"verdict", "severity"}:
            return segment["q_value"] is not None and segment["q_value"] <= FALSE_DISCOVERY_RATE
        return segment["insufficient"] is None

    def _failure_of(self, report: Mapping[str, Any]) -> str | None:
        about = report.get("top_label", report)
        value = self._value(report, about)
        if self.comparison is None:
            holds = value not in {Verdict.CALIBRATED, Verdict.INSUFFICIENT}
        elif self.name == "severity":
            holds = _OPERATORS[self.comparison](Severity(value).rank, Severity(str(self.limit)).rank)
        else:
            holds = _OPERATORS[self.comparison](value, self.limit)
        where = self.name if self.field is None else f"{self.name}.{self.field}"
        where = f"{where} of {printable(about['segment'])}" if self.of_segments else where
        shown = f"{value:.6g}" if isinstance(value, float) else str(value)
        return f"{self.text} ({where} is {shown})" if holds else None

    def _value(self, report: Mapping[str, Any], about: Mapping[str, Any]) -> Any:
        diagnosis = about["diagnosis"] or {}
        measures = {**about["measures"], **report["measures"]}
        if self.name in measures:
            value = measures[self.name][self.field or "value"]
        elif self.name in {"verdict", "severity", *_NUMBERS_OF_DIAGNOSIS}:
            value = diagnosis.get(self.name)
            undecided = diagnosis.get("verdict") == Verdict.INSUFFICIENT and self.limit != Verdict.INSUFFICIENT
            if value is None or undecided:
                self._refuse(diagnosis.get("sentence") or f"there is no verdict; {Option.DRAWS} 0 leaves it out")
        else:
            value = (about["performance"] or {}).get(self.name, about.get(self.name, report.get(self.name)))
        if value is None:
            omitted = {**about["omitted"], **report["omitted"]}
            named = (
                f"; name it with {Option.MEASURE.given([self.name])}"
                if self.name in {**MEASURES, **CLASS_MEASURES}
                else ""
            )
            self._refuse(report["insufficient"] or omitted.get(self.name) or f"the report does not have it{named}")
        return value

    def _refuse(self, reason: str) -> None:
        raise NotEnoughData(f"{Option.FAIL_IF} {self.text!r} cannot be decided: {reason}")


def _check_name(text: str, name: str, field: str | None) -> None:
    measures = {**MEASURES, **CLASS_MEASURES}
    names = ["verdict", "severity", *_COUNTS, *_SCORES, *_NUMBERS_OF_DIAGNOSIS, *measures]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        raise InputError(f"{Option.FAIL_IF} {text!r}: there is no {name!r} in a report; {hint}")
    if field is not None and (name not in measures or field not in _FIELDS):
        raise InputError(
            f"{Option.FAIL_IF} {text!r}: only a measure has fields ({', '.join(_FIELDS)}), got {name}.{field}"
        )


def _example(name: str) -> str:
    return "severity>=moderate" if name == "severity" else f"{name}>0.1"
