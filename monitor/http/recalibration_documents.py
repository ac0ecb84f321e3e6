"""Refits, maps and what serves, as JSON says them."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import quote

from monitor.durations import format_duration
from monitor.events.times import format_time
from monitor.maps import Method
from monitor.recalibration.service import Recalibrations
from monitor.store.recalibrations import AuditEntry, Champion, Job, Order

Document = dict[str, Any]


class Open(NamedTuple):
    """What may be done with refits as things stand: their ids."""

    with_map: Collection[str]
    """Those whose map can be had."""
    promotable: Collection[str]
    """Those that a promotion would let serve."""


def open_of(known: Recalibrations, jobs: Collection[Job]) -> Open:
    """What may be done with these refits."""
    return Open(known.with_map(jobs), known.promotable(jobs))


def job_document(job: Job, may: Open) -> Document:
    """A refit with all that is known of it."""
    return {**job_summary(job, may), "comparison": job.comparison}


def job_summary(job: Job, may: Open) -> Document:
    """A refit as lists show it: without its comparison."""
    order = job.order
    path = job_path(job.id)
    return {
        "id": job.id,
        "model": order.model,
        "version": order.version,
        "method": order.method,
        "options": dict(order.options),
        "window": window_text(order),
        "promote": order.promote,
        "trigger": order.trigger,
        "actor": job.actor,
        "state": job.state.value,
        "progress": job.progress,
        "step": job.step,
        "reason": job.reason,
        "attempts": job.attempts,
        "requested_at": format_time(job.requested_ms),
        "started_at": _time(job.started_ms),
        "finished_at": _time(job.finished_ms),
        "baseline": job.baseline,
        "links": {
            "self": path,
            "page": f"/recalibrations/{quote(job.id, safe='')}",
            "artifact": f"{path}/artifact" if job.id in may.with_map else None,
            "promotion": f"{path}/promotion" if job.id in may.promotable else None,
            "figures": {name: f"{path}/figures/{quote(name, safe='')}" for name in job.figures},
            "model": model_path(order.model, "recalibration"),
        },
    }


def champion_document(champion: Champion) -> Document:
    """What serves."""
    served = champion.map_id
    return {
        "model": champion.model,
        "version": champion.version,
        "map": served,
        "since": format_time(champion.since_ms) if champion.revision else None,
        "revision": champion.revision,
        "artifact": None if served is None else f"{job_path(served)}/artifact",
    }


def settings_document(order: Order, told: Mapping[str, Any]) -> Document:
    """What refits of a model are like unless a request says otherwise, and when the next one is due.

    Parameters
    ----------
    order
        The one that a request gets that says nothing.
    told
        The model's part of :meth:`Recalibrations.schedules`.
    """
    return {
        "method": order.method,
        "options": dict(order.options),
        "window": window_text(order),
        "promotion": "automatic" if order.promote else "manual",
        "schedule": told.get("schedule"),
        "on_verdict": bool(told.get("on_verdict", False)),
        "next": _time(told.get("next")),
    }


def method_document(method: Method) -> Document:
    """A method, with what its options mean."""
    return {
        "name": method.name,
        "title": method.title,
        "meaning": method.meaning,
        "binary": method.binary,
        "many_classes": method.many_classes,
        "needs_features": method.needs_features,
        "needs_segments": method.needs_segments,
        "options": [
            {
                "name": name,
                "kind": option.kind,
                "default": option.default,
                "meaning": option.meaning,
                "choices": list(option.choices),
                "above": option.above,
                "at_least": option.at_least,
                "at_most": option.at_most,
            }
            for name, option in method.options.items()
        ],
    }


def audit_document(entry: AuditEntry) -> Document:
    """Who did what."""
    return {
        "number": entry.number,
        "at": format_time(entry.at_ms),
        "actor": entry.actor,
        "action": entry.action,
        "model": entry.model,
        "version": entry.version,
        "subject": entry.subject or None,
        "detail": dict(entry.detail),
    }


def job_path(job_id: str) -> str:
    """Where a refit stands."""
    return f"/v1/recalibrations/{quote(job_id, safe='')}"


def model_path(model: str, what: str) -> str:
    """Where something of a model stands."""
    return f"/v1/models/{quote(model)}/{what}"


def window_text(order: Order) -> str | None:
    """How far back an order's events are taken, as people write it."""
    return None if order.window_ms is None else format_duration(timedelta(milliseconds=order.window_ms))


def _time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else format_time(milliseconds)
