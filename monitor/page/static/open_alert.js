/* The open alert that a version is about, of those that it has. */

/** A kind of alert -> what it is about. @type {Record<string, string>} */
export const ABOUT = { calibration: "predictions are wrong", change: "outcomes have changed", map: "the map does harm" };

/** A detector -> the kind of alert that it raises; calibration of all others. @type {Record<string, string>} */
const KINDS = { change: "change", serving_map: "map" };

/** The state of a version that has no open alert. @param {any} version of `GET /v1/models` */
export function evidenceState(version) {
  const state = version?.evidence?.state ?? "waiting";
  return state === "waiting" ? "insufficient" : state;
}

/** Whether an alert is what a version's evidence speaks of. @param {any} alert @param {any} evidence of the version in `GET /v1/models` */
export const isOf = (alert, evidence) => alert.kind === (KINDS[evidence?.detector] ?? "calibration");

/** The alert that a version's page is about: one that nobody has before one that somebody has; of several what its evidence speaks of. @param {any[]} alerts @param {any} evidence of the version in `GET /v1/models` */
export function leading(alerts, evidence) {
  const of = (/** @type {string} */ state) => {
    const found = alerts.filter((alert) => alert.state === state);
    return found.find((alert) => isOf(alert, evidence)) ?? found[0];
  };
  return of("firing") ?? of("acknowledged") ?? of("pending");
}
