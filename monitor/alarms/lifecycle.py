"""The life of alerts: one for each change of a version, whatever kinds of findings speak for it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import xxhash

from monitor.store.alert import OPEN, Alert, AlertState, Finding, Resolution
from monitor.store.model_evidence import DETECTORS_OF, PENDING_LOG10

Step = tuple[Alert | None, Alert | None]
"""An alert before and after; None: there was or is none."""

_KINDS: Final = list(DETECTORS_OF)


def advance(alerts: Sequence[Alert], findings: Sequence[Finding], now_ms: int) -> list[Step]:
    """Move the alerts on a version on by its next findings.

    A finding belongs to the alert that fires already where its change began before that one's evidence had reached its
    line: then both are about one change. A change that began later is another alert, and fires by itself.

    Parameters
    ----------
    alerts
        The current ones of the version.
    findings
        The next findings, one of each kind that has evidence; without any the version has stopped. Those that look less
        far than the last change nothing.
    now_ms
        Wall-clock time.

    Returns
    -------
    A step for each of the alerts, and for each new one.
    """
    return [(before, _fired_again(after, now_ms)) for before, after in _follow(alerts, findings, now_ms)]


def _follow(alerts: Sequence[Alert], findings: Sequence[Finding], now_ms: int) -> list[Step]:
    if any(finding.settled_ms < alert.finding.settled_ms for finding in findings for alert in alerts):
        return [(alert, alert) for alert in alerts]
    oldest_first = sorted(alerts, key=lambda alert: (alert.raised_ms is None, alert.raised_ms or 0))
    taken: list[tuple[Alert | None, list[Finding]]] = [(alert, []) for alert in oldest_first]
    for finding in sorted(filter(_speaks, findings), key=_in_order_of_alarms):
        for alert, own in sorted(taken, key=lambda one: not _has(one[0], finding)):
            if _has(alert, finding) or _is_about(alert, own, finding):
                own.append(finding)
                break
        else:
            taken.append((None, [finding]))
    return [(alert, _next(alert, own, findings, now_ms)) for alert, own in taken]


def resolve(alert: Alert, reason: Resolution, now_ms: int) -> Alert:
    """The alert, resolved."""
    return replace(alert, state=AlertState.RESOLVED, resolved_ms=now_ms, reason=reason)


def _fired_again(alert: Alert | None, now_ms: int) -> Alert | None:
    """The alert, which fires again where the time is over for which it was muted."""
    if alert is None or alert.state is not AlertState.ACKNOWLEDGED or alert.muted_until_ms is None:
        return alert
    return alert if now_ms < alert.muted_until_ms else replace(alert, state=AlertState.FIRING, muted_until_ms=None)


def _speaks(finding: Finding) -> bool:
    """Whether an alarm fires, or is near."""
    return finding.raised_ms is not None or finding.log10_evidence >= finding.log10_line - PENDING_LOG10


def _in_order_of_alarms(finding: Finding) -> tuple[bool, int, int]:
    return finding.first_raised_ms is None, finding.first_raised_ms or 0, _KINDS.index(finding.kind)


def _has(alert: Alert | None, finding: Finding) -> bool:
    """Whether the alarm that fires is one that an alert was raised by, or that has joined it."""
    if alert is None or finding.raised_ms is None or finding.kind not in alert.kinds:
        return False
    if alert.state is AlertState.RESOLVED:
        # The alarm that it was resolved from: the detector has not begun anew yet.
        return finding.raised_ms <= alert.finding.settled_ms
    return alert.state in OPEN


def _is_about(alert: Alert | None, own: Sequence[Finding], finding: Finding) -> bool:
    """Whether a finding is about the change that an alert is about, or that findings of a new one are about."""
    if alert is not None and alert.state is AlertState.RESOLVED:
        return False
    firsts = [one.first_raised_ms for one in own] if alert is None or alert.raised_ms is None else [alert.raised_ms]
    raised_ms = min((first for first in firsts if first is not None), default=None)
    return raised_ms is None or finding.since_ms < raised_ms


def _next(alert: Alert | None, own: Sequence[Finding], every: Sequence[Finding], now_ms: int) -> Alert | None:
    """The alert after the findings that belong to it, out of all findings of its version; None: there is none."""
    firing = any(finding.raised_ms is not None for finding in own)
    if alert is not None and alert.state is not AlertState.PENDING:
        if firing and alert.state is AlertState.RESOLVED:
            return alert
        if not firing:
            return _over(alert, [finding for finding in every if finding.kind in alert.kinds], every, now_ms)
    if not own:
        return None
    finding = _together(own)
    if alert is None:
        alert = Alert(id=_id(finding, now_ms), state=AlertState.PENDING, finding=finding, pending_ms=now_ms)
    if alert.state in OPEN:
        # Evidence begins anew once it has reached the line. What the alert says is the most that there was.
        most = max(alert.finding, finding, key=lambda one: one.log10_evidence - one.log10_line)
        document = _with_before(finding, alert.finding)
        finding = replace(finding, log10_evidence=most.log10_evidence, log10_line=most.log10_line, document=document)
    # Without what is not saved, so that it is equal to the last where nothing has moved.
    saved = replace(finding, raised_ms=None, first_raised_ms=None, ended_by_settings_ms=None, revision=0)
    alert = replace(alert, finding=saved)
    if firing and alert.state is AlertState.PENDING:
        first_ms = min(one.first_raised_ms for one in own if one.first_raised_ms is not None)
        return replace(alert, state=AlertState.FIRING, firing_ms=now_ms, raised_ms=first_ms)
    return alert


def _over(alert: Alert, about: Sequence[Finding], every: Sequence[Finding], now_ms: int) -> Alert | None:
    """The alert after its last alarm ended, by the findings of its kinds, and of its version; None: there is none."""
    if alert.state is AlertState.RESOLVED:
        return alert if every and not about else None
    if not every:
        return resolve(alert, Resolution.STOPPED, now_ms)
    if not about:
        return alert
    # Nothing is said of it any more: it keeps what it was raised for.
    ended = (finding.ended_by_settings_ms for finding in about)
    by_settings = any(at_ms is not None and at_ms >= alert.finding.settled_ms for at_ms in ended)
    last = replace(alert.finding, settled_ms=about[0].settled_ms)
    return resolve(replace(alert, finding=last), Resolution.SETTINGS if by_settings else Resolution.OVER, now_ms)


def _together(findings: Sequence[Finding]) -> Finding:
    """One finding with the words and numbers of the one that leads, and the detectors of all."""

    def rank(finding: Finding) -> tuple[bool, float]:
        fires = finding.raised_ms is not None
        return not fires, _KINDS.index(finding.kind) if fires else finding.log10_line - finding.log10_evidence

    leader, *others = sorted(findings, key=rank)
    return replace(leader, witnesses=[*leader.witnesses, *(one for other in others for one in other.witnesses)])


def _with_before(finding: Finding, last: Finding) -> Mapping[str, Any]:
    """The document of a finding, with the picture from before the change: panes of that time are not kept for ever."""
    document, before = finding.document, last.document.get("before", {})
    is_same = (finding.since_ms, document.get("segment")) == (last.since_ms, last.document.get("segment"))
    if is_same and before.get("labelled", 0) > document.get("before", {}).get("labelled", 0):
        return {**document, "before": before}
    return document


def _id(finding: Finding, now_ms: int) -> str:
    text = "\0".join((finding.model, finding.version, finding.kind, str(now_ms), str(finding.settled_ms)))
    return f"al_{xxhash.xxh3_64_hexdigest(text.encode('utf-8', 'replace'))}"
