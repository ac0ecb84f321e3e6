"""The life of an alert: pending, firing, acknowledged, resolved."""

from dataclasses import replace

import xxhash

from monitor.store.alert import OPEN, Alert, AlertState, Finding, Resolution
from monitor.store.model_evidence import PENDING_LOG10


def advance(alert: Alert | None, finding: Finding, now_ms: int) -> Alert | None:
    """What becomes of an alert with the next finding.

    Parameters
    ----------
    alert
        The current one of the finding's model, version and kind; None: there is none.
    finding
        The next finding. One that looks less far than the last changes nothing.
    now_ms
        Wall-clock time.

    Returns
    -------
    The alert as it is now, another one, or None: there is none any more.
    """
    if alert is not None:
        if finding.settled_ms < alert.finding.settled_ms:
            return alert
        if alert.state in OPEN:
            if finding.raised_ms is None:
                # Nothing is said of it any more: it keeps what it was raised for.
                last = replace(alert.finding, settled_ms=finding.settled_ms)
                ended_ms = finding.ended_by_settings_ms
                by_settings = ended_ms is not None and ended_ms >= alert.finding.settled_ms
                reason = Resolution.SETTINGS if by_settings else Resolution.OVER
                return resolve(replace(alert, finding=last), reason, now_ms)
            # Evidence begins anew once it has reached the line. What the alert says is the most that there was.
            strongest = max(alert.finding.log10_evidence, finding.log10_evidence)
            # Without what is not saved, so that it is equal to the last where nothing has moved.
            saved = replace(finding, log10_evidence=strongest, raised_ms=None, ended_by_settings_ms=None, revision=0)
            return replace(alert, finding=saved)
        raised_ms = finding.raised_ms
        if alert.state is AlertState.RESOLVED and raised_ms is not None and raised_ms <= alert.finding.settled_ms:
            # The alarm that it was resolved from: the detector has not begun anew yet.
            return alert
    if finding.raised_ms is None and finding.log10_evidence < finding.log10_line - PENDING_LOG10:
        return None
    if alert is None or alert.state is AlertState.RESOLVED:
        alert = Alert(id=_id(finding, now_ms), state=AlertState.PENDING, finding=finding, pending_ms=now_ms)
    alert = replace(alert, finding=finding)
    return replace(alert, state=AlertState.FIRING, firing_ms=now_ms) if finding.raised_ms is not None else alert


def without_finding(alert: Alert, now_ms: int, *, version_runs: bool) -> Alert | None:
    """What becomes of an alert of whose model, version and kind there is no finding."""
    if alert.state is AlertState.PENDING:
        return None
    if version_runs:
        return alert
    return resolve(alert, Resolution.STOPPED, now_ms) if alert.state in OPEN else None


def resolve(alert: Alert, reason: Resolution, now_ms: int) -> Alert:
    """The alert, resolved."""
    return replace(alert, state=AlertState.RESOLVED, resolved_ms=now_ms, reason=reason)


def _id(finding: Finding, now_ms: int) -> str:
    text = "\0".join((finding.model, finding.version, finding.kind, str(now_ms), str(finding.settled_ms)))
    return f"al_{xxhash.xxh3_64_hexdigest(text.encode('utf-8', 'replace'))}"
