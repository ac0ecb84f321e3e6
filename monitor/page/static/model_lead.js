/* How a version is, since when, and what to do, in a sentence or two. */

import { ROOT } from "page/api.js";
import { evidenceState, isOf } from "page/open_alert.js";
import { Time, toneOf } from "page/parts.js";
import { localError } from "page/refit_parts.js";
import { Help } from "page/ui.js";
import { html } from "page/vendor/preact.js";
import { duration, inZone, sentence } from "page/words.js";

const STALE_MS = 15 * 60_000;

/** The state of a version: that of its alert, where it has an open one. @param {any} model @param {any} of its version @param {any} alert */
export function stateOf(model, of, alert) {
  if (alert) return alert.state;
  return model.state === "failed" || model.state === "waiting" ? model.state : evidenceState(of);
}

/** What is known of a version without an alert. @param {string} state @param {any} model @param {any} of @param {any} report @param {any} serving @param {string | null} local */
function known(state, model, of, report, serving, local) {
  if (model.state === "waiting") return "No predictions have come yet: the model is declared, and its events are awaited.";
  if (model.state === "failed") return "No report could be made in the last evaluation: see the log of the service.";
  if (!of) return "Nothing of this version is in the windows: choose another.";
  const { evidence } = of;
  if (state === "insufficient") {
    const horizon = model.policy ? ` Outcomes are awaited for ${duration(model.policy.horizon_seconds)}.` : "";
    if (serving && !report?.insufficient)
      return `Evidence begins anew with the map that serves: how predictions are with it is known once their outcomes are settled.${horizon}`;
    return `Nothing can be said yet. ${report?.insufficient ? sentence(report.insufficient) : evidence.sentence}${horizon}`;
  }
  if (evidence.state === "quiet") {
    const calm = local
      ? `No detector finds anything, as predictions are right on the whole. A refit found that they are off by up to ${local} percentage points among events that are alike.`
      : serving
        ? "With the correction, predictions are fine: there is nothing to do while scorers apply it."
        : "Nothing is found: there is nothing to do.";
    return `${calm} ${evidence.sentence}`;
  }
  return evidence.sentence;
}

/** Where evidence stands, in powers of ten. @param {any} evidence */
const powers = (evidence) =>
  evidence?.log10_evidence == null
    ? null
    : `evidence 10^${evidence.log10_evidence.toFixed(1)}, the alert line is 10^${evidence.log10_line.toFixed(1)}`;

/**
 * @param {{ model: any, of: any, alert: any, report: any, serving: any, refit: any }} props
 *   model: as `GET /v1/models` has it; of: its version; alert: the open or pending one; serving: the refit whose map serves;
 *   refit: the newest that compared anything, while none serves
 */
export function Lead({ model, of, alert, report, serving, refit }) {
  const state = stateOf(model, of, alert);
  const local = localError(refit?.comparison?.maps?.none);
  // Evidence that has no explanation, or speaks of another alert of the version, says less than the alert.
  const told =
    alert && !isOf(alert, of?.evidence)
      ? sentence(alert.summary)
      : alert && !of?.evidence.label
        ? `${sentence(alert.summary)} ${of?.evidence.sentence ?? ""}`
        : known(state, model, of, report, serving, local);
  const { held_back_by: hold, evaluated_at: evaluated } = model;
  const late = evaluated !== null && Date.now() - Date.parse(evaluated) > STALE_MS;
  return html`<div class=${`lead ${toneOf(state)}`}>
    <p title=${powers(of?.evidence)}><bdi>${inZone(told)}</bdi>${of?.evidence.label && html` <${Help} to=${`answers.html#label-${of.evidence.label}`} />`}</p>
    <p class="notes">
      ${alert && html`<a href="${ROOT}alerts/${encodeURIComponent(alert.id)}">${state === "pending" ? "What is pending" : "The alert, and what to do"}</a>: it began <${Time} at=${alert.change_point.at} relative="events" />${alert.acknowledged_by && html`, <bdi>${alert.acknowledged_by}</bdi> has it`}. `}
      ${local && html`<a href="${ROOT}recalibrations/${encodeURIComponent(refit.id)}">The refit, and where they are off</a>. `}
      ${serving ? html`<a href="${ROOT}recalibrations/${encodeURIComponent(serving.id)}">${serving.method}</a> serves. ` : "No map serves. "}
      ${model.settled_to && html`Settled to <${Time} at=${model.settled_to} />. `}
      ${hold && html`<strong>▲ Partition ${hold.partition} holds that back: <bdi>${hold.detail}</bdi>.</strong> `}
      ${model.caps.map((/** @type {any} */ { warning }) => warning && html`<strong>▲ <bdi>${sentence(warning)}</bdi></strong> `)}
      ${late && html`<strong>▲ Stale: last evaluated <${Time} at=${evaluated} relative />.</strong> `}
    </p>
  </div>`;
}
