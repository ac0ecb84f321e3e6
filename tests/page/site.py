"""A small service for a browser: the API on real parts, with models, an alert and refits in its store."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

from monitor.access.settings import AccessSettings
from monitor.http.recalibration_schemas import RefitBody
from monitor.http.server import ApiServer
from monitor.store.alert import Alert, Finding
from monitor.store.alerts import AlertStore, save
from tests.alarms.findings import advanced
from tests.alarms.streams import Truth, stream
from tests.http.keys import Keys
from tests.http.refits import Refits
from tests.http.service import Service
from tests.snapshots import evidence, evidence_level, report, snapshot, with_evidence

CHANGE_MINUTE: Final = 150
"""Of the predictions of churn, after which those for region=eu are too sure of themselves."""

ROLES: Final = [
    ("read",),
    ("read:churn",),
    ("write",),
    ("write:fraud",),
    ("promote",),
    ("write", "promote"),
    ("write", "promote:churn"),
    ("read:org/model",),
]
"""Those of the keys that a service knows from its start."""

SPANS: Final = [
    ("churn", "8", "24h"),
    ("churn", "8", "1h"),
    ("fraud", "7", "24h"),
    ("org/model", "1", "24h"),
    ("org/model", "1", "last-10000"),
]


class Site:
    """A service at a URL. It can be stopped and started again at the same one.

    Parameters
    ----------
    folder
        Of its store.
    keys
        Its keys, which are made for all of :data:`ROLES`; None: access control is off.
    labels
        Of its models.
    """

    def __init__(
        self,
        folder: Path,
        keys: Keys | None = None,
        *,
        failures_per_minute: int = 10**6,
        labels: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> None:
        self.refits = Refits(folder)
        self.keys = keys or Keys()
        for roles in ROLES:
            self.keys(*roles)
        kept = AlertStore(self.refits.database.database)
        access = AccessSettings(failures_per_minute=failures_per_minute)
        self.service = Service(refits=self.refits, alerts=kept, access=access, stream_seconds=100.0)
        if keys is not None:
            self.service.authenticator = keys.authenticator(self.service.clock)
        drawn = [report(*name, bins=10) for name in ((model, version, "", window) for model, version, window in SPANS)]
        # Of the map that serves below, the first.
        firing = evidence(calibration=evidence_level(6.4, raised=True))._replace(revision=1)
        self.service.show(
            with_evidence(
                snapshot(drawn),
                {("churn", "8"): firing, ("fraud", "7"): evidence(calibration=evidence_level(0.4))},
            )
        )
        self.champion = self.refit()
        self.refits.promote(self.champion, actor="key:nightly", note="")
        self.candidate = self.refit()
        """A refit that waits for its promotion, after :attr:`champion`."""
        self.alert = self.fire()  # a promotion resolves alerts
        """An alert that fires about churn 8."""
        self._labels = labels
        self._server = ApiServer(self.service.app(labels=labels), port=0)

    @property
    def url(self) -> str:
        """Without a slash at the end."""
        return self._server.url

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        self.refits.close()

    def stop(self) -> None:
        """Answer nothing any more."""
        self._server.stop()

    def start(self) -> None:
        """Answer again, at the same URL."""
        self._server = ApiServer(self.service.app(labels=self._labels), port=self._server.port)
        self._server.start()

    def fire(self, **more: Any) -> Alert:
        """Add an alert, that fires, about churn 8 unless the arguments, fields of the finding, say otherwise."""
        finding = replace(finding_of_shape(), **{"version": "8", **more})
        now_ms = self.refits.clock.now_ms()
        alert = advanced(None, finding, now_ms)
        assert alert is not None
        with self.refits.database.database.writing() as connection:
            save(self.refits.database.database, connection, [(None, alert)], now_ms)
        return alert

    def refit(self, model: str = "churn") -> str:
        """Add a refit whose map is better; its id."""
        asked = self.refits.request(self.refits.make_request(model), actor="key:nightly")[0]
        return self.refits.end(asked.id, comparison=RefitBody.example()["comparison"]).id


@cache
def finding_of_shape() -> Finding:
    """A real finding about churn 7: predictions for region=eu are too sure of themselves since CHANGE_MINUTE."""
    truth: Truth = lambda at, of, logit: 0.6 * logit if at >= CHANGE_MINUTE and of == "region=eu" else logit  # noqa: E731
    events = {"region=eu": 20, "region=jp": 30, "region=us": 60}
    findings, _ = stream(truth, of=events, lines={"calibration": 1e5}).explain()
    return findings["calibration"]
