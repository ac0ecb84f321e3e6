/* What happened to a version: alerts, refits, promotions, rollbacks, deploys; as marks on every axis of time, and as a list. */

import { ROOT } from "page/api.js";
import { DETECTORS } from "page/model_plots.js";
import { State, Time } from "page/parts.js";
import { html, useState } from "page/vendor/preact.js";
import { eventsTime, inZone } from "page/words.js";

/** @typedef {{ at: number, text: string, tone?: string, title: string, link?: string, state?: string }} Happened */

/** @param {any} alert */
const alertLink = (alert) => `${ROOT}alerts/${encodeURIComponent(alert.id)}`;

/** @param {string} id */
const refitLink = (id) => `${ROOT}recalibrations/${encodeURIComponent(id)}`;

/** When alerts began to fire, in the time of predictions, and when other detectors joined one. @param {any[]} alerts the newest first @param {any} past the history of evidence @returns {Happened[]} */
function fired(alerts, past) {
  const begun = Object.entries(past.detectors).flatMap(([detector, { firing }]) =>
    past.to.flatMap((/** @type {string} */ to, /** @type {number} */ at) => {
      if (!firing[at] || firing[at - 1]) return [];
      const began = Date.parse(to);
      const isIts = (/** @type {any} */ one) => one.witnesses.some((/** @type {any} */ witness) => witness.detector === detector);
      return [{ began, detector, alert: alerts.find((one) => isIts(one) && Date.parse(one.change_point.at) <= began) }];
    }),
  );
  const known = new Set();
  return begun
    .toSorted((one, other) => one.began - other.began)
    .map(({ began, detector, alert }) => {
      const joins = alert && known.has(alert.id);
      known.add(alert?.id);
      return {
        at: began,
        text: joins ? "joins" : "alert",
        tone: "bad",
        title: `${joins ? "Another detector joins the alert" : "An alert fires"}: ${DETECTORS[detector] ?? detector}`,
        ...(alert && { link: alertLink(alert), state: alert.state }),
      };
    });
}

/** Promotions and rollbacks. @param {any[]} servings @param {Map<string, any>} refits @returns {Happened[]} */
function served(servings, refits) {
  return servings.map((serving, at) => {
    const method = serving.map && (refits.get(serving.map)?.method ?? "a map");
    // A promotion lets a new map serve; a rollback one that served before, or none.
    const back = !serving.map || servings.slice(0, at).some((one) => one.map === serving.map);
    return {
      at: Date.parse(serving.from),
      text: back ? "rollback" : method,
      tone: "seen",
      title: back ? `Rolled back: ${method ? `${method} serves again` : "no map serves"}` : `Promoted: ${method} serves`,
      ...(serving.map && { link: refitLink(serving.map) }),
    };
  });
}

/**
 * @param {{ version: string, alerts: any[], refits: any[], servings: any[], evidence: any[], from: number }} of
 *   servings: of `GET /v1/models/{model}/recalibration`; evidence: the versions of `GET /v1/models/{model}/evidence`
 * @returns {Happened[]} the newest first
 */
export function happened({ version, alerts, refits, servings, evidence, from }) {
  const changes = new Map(alerts.filter((alert) => alert.firing_since).map((alert) => [alert.change_point.at, alert]));
  const past = evidence.find((one) => one.version === version)?.history;
  // The first: a map serves from the events on that were read when it was promoted, which may be older than its refit.
  const servedFrom = new Map(servings.toReversed().map((one) => [one.map, Date.parse(one.from)]));
  const all = [
    ...[...changes].map(([at, alert]) => ({
      at: Date.parse(at),
      text: "change",
      tone: "warn",
      title: `Change: ${inZone(alert.summary)}`,
      link: alertLink(alert),
    })),
    ...(past ? fired(alerts, past) : []),
    ...served(servings, new Map(refits.map((job) => [job.id, job]))),
    ...refits
      .filter((job) => job.finished_at)
      .map((job) => ({
        at: Math.min(eventsTime(Date.parse(job.finished_at)), servedFrom.get(job.id) ?? Infinity),
        text: "refit",
        title: `Refit: ${job.method}`,
        link: refitLink(job.id),
        state: job.state,
      })),
    ...evidence.flatMap((one) => {
      const [first, second] = (one.history?.to ?? []).map(Date.parse);
      // A version that was there before has a point at the begin of the range.
      const begins = first - from > 2 * (second - first);
      return begins ? [{ at: first, text: `version ${one.version}`, title: `First settled predictions of version ${one.version}` }] : [];
    }),
  ];
  return all.toSorted((one, other) => other.at - one.at);
}

const FIRST = 6; // that are shown at first

/** @param {{ events: Happened[] }} props */
export function Happenings({ events }) {
  const [all, setAll] = useState(false);
  const shown = all ? events : events.slice(0, FIRST);
  return html`<section class="card"><h2>What happened</h2>
    ${events.length === 0 && html`<p class="soft">Nothing in this time.</p>`}
    <div class="scroll"><table class="happened"><tbody>${shown.map(
      (one) => html`<tr><td class="text"><${Time} at=${new Date(one.at).toISOString()} /></td>
      <td class="text">${one.link ? html`<a href=${one.link}><bdi>${one.title}</bdi></a>` : html`<bdi>${one.title}</bdi>`}</td><td class="text">${one.state && html`<${State} state=${one.state} />`}</td></tr>`,
    )}</tbody></table></div>
    ${events.length > FIRST && html`<button type="button" onClick=${() => setAll(!all)}>${all ? "Fewer" : `All ${events.length}`}</button>`}</section>`;
}
