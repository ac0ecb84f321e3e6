/* One alert: what, since when, for whom, before and since, and what to do. */

import { modelPath, ROOT, sendJson, withQuery } from "page/api.js";
import { AskRefit } from "page/ask_refit.js";
import { Ask } from "page/dialog.js";
import { DETECTORS, EvidencePlot } from "page/model_plots.js";
import { PastLine, Power, ServiceTime, State, Time, toneOf } from "page/parts.js";
import { reported, SideBySide } from "page/spans.js";
import { Help, ModelLink, may, Problem, show, useAnswer, useTitle } from "page/ui.js";
import { html, useMemo, useState } from "page/vendor/preact.js";
import { certain, count, eventsTime, interval, inZone, percent, plural, sentence, timeText } from "page/words.js";

const ID = decodeURIComponent(location.pathname.split("/").filter(Boolean).at(-1) ?? "");
const HARM = "map"; // the kind of alert about a map that serves
const SILENCES = [
  ["1h", "for an hour, then it fires again"],
  ["8h", "for 8 hours"],
  ["1d", "for a day"],
  ["7d", "for a week"],
];

/** @type {Record<string, string>} */
const ENDED = {
  over: "the data speak against it now",
  stopped: "the version has no more events",
  promoted: "another map serves",
  rolled_back: "the map was rolled back",
};

/** A value, and its interval. @param {number | null | undefined} value @param {number[] | null | undefined} ends */
const fitted = (value, ends, signed = false) =>
  html`${certain(value, ends?.[0], ends?.[1], signed)} ${ends && html`<small>(${interval(ends[0], ends[1])})</small>`}`;

/** @param {{ segments: any[] }} props those that carry the alert */
function Segments({ segments }) {
  return html`<section class="card wide"><h2>For whom</h2><div class="scroll"><table>
    <thead><tr><th scope="col" class="text">Segment</th>${["Evidence", "Labelled", "Predicted", "Came true", "Offset (0 is right)", "Slope (1 is right)"].map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
    <tbody>${segments.map(
      (one) => html`<tr><th scope="row" class="text"><bdi>${one.segment}</bdi></th><td><${Power} log10=${one.log10_evidence} /></td>
      <td>${count(one.labelled)}</td><td>${percent(one.mean_prediction)}</td><td>${percent(one.prevalence)}</td>
      <td>${fitted(one.offset, one.offset_interval, true)}</td><td>${fitted(one.slope, one.slope_interval)}</td></tr>`,
    )}</tbody></table></div></section>`;
}

/** What a map does to the Brier score. @param {{ before: any, after: any }} props */
function Harm({ before, after }) {
  const row = (/** @type {string} */ name, /** @type {any} */ span) =>
    span &&
    html`<tr><th scope="row" class="text">${name}</th><td><${Time} at=${span.from} /></td><td><${Time} at=${span.to} /></td><td>${count(span.labelled)}</td>
    <td>${fitted(span.brier_difference, span.brier_difference_interval, true)}</td></tr>`;
  return html`<section class="card wide"><h2>What the map does</h2><div class="scroll"><table>
    <thead><tr><td></td>${["From", "To", "Labelled", "Brier score with the map, less that without"].map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
    <tbody>${row("Before", before)}${row("Since", after)}</tbody></table></div>
    <p class="soft"><small>The Brier score is the mean squared distance between predictions and outcomes: above 0 the map does harm.</small></p></section>`;
}

/** Evidence around the change. @param {{ alert: any }} props */
function Evidence({ alert }) {
  const [zoom, setZoom] = useState(/** @type {[number, number] | null} */ (null));
  const change = Date.parse(alert.change_point.at);
  const settled = Date.parse(alert.settled_to);
  // As long before the change as has passed since, as far as there is evidence.
  const earliest = 2 * change - settled;
  const query = { version: alert.version, from: new Date(earliest).toISOString(), to: alert.resolved_at && alert.settled_to };
  const { data } = useAnswer(change < settled ? withQuery(`v1/models/${modelPath(alert.model)}/evidence`, query) : null, 60);
  const marks = useMemo(() => [{ at: change, text: "change", tone: "warn" }], [change]);
  const shades = useMemo(
    () => [{ from: Date.parse(alert.change_point.from), to: Date.parse(alert.change_point.to) }],
    [alert.change_point.from, alert.change_point.to],
  );
  const version = data?.versions.find((/** @type {any} */ one) => one.version === alert.version);
  const first = Date.parse(version?.history?.to[0]);
  const range = useMemo(() => /** @type {[number, number]} */ ([Math.max(earliest, first), settled]), [earliest, first, settled]);
  if (!first) return null;
  return html`<${EvidencePlot} evidence=${version} shared=${{ range: zoom ?? range, onRange: setZoom, marks, shades }} />`;
}

/** Since when, and how sure that is. @param {{ alert: any }} props */
function Facts({ alert }) {
  const { change_point: point } = alert;
  const fact = (/** @type {string} */ name, /** @type {any} */ value) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
  return html`<section class="card"><h2>Since when</h2><dl class="facts">
    ${fact("Changed", html`<${Time} at=${point.at} />${point.from !== point.to && html` <small>between <${Time} at=${point.from} /> and <${Time} at=${point.to} /></small>`}`)}
    ${fact(alert.firing_since ? "Fired" : "Pending since", html`<${ServiceTime} at=${alert.firing_since ?? alert.pending_since} /> <small><${ServiceTime} at=${alert.firing_since ?? alert.pending_since} relative /></small>`)}
    ${fact("Evidence", html`<${PastLine} log10=${alert.log10_evidence} line=${alert.log10_line} /> <small>which the budget of false alarms draws</small>`)}
    ${
      alert.witnesses.length > 1 &&
      fact(
        "Detectors",
        alert.witnesses.map(
          (/** @type {any} */ one) =>
            html`${DETECTORS[one.detector] ?? one.detector} <small><${PastLine} log10=${one.log10_evidence} line=${one.log10_line} />${one.firing ? "" : ", pending"}</small><br />`,
        ),
      )
    }
    ${
      alert.together.length > 0 &&
      fact(
        "Changed about then, too",
        html`${alert.together.map(
          (/** @type {any} */ one, /** @type {number} */ at) =>
            html`${at > 0 && ", "}<a href="${ROOT}alerts/${one.id}"><bdi>${one.model}</bdi> <bdi>${one.version}</bdi></a>`,
        )} <small>look for what they have in common</small>`,
      )
    }
    ${fact("Labelled since", html`${count(alert.events)} <small>settled to <${Time} at=${alert.settled_to} /></small>`)}
    ${alert.acknowledged_by && fact("Acknowledged by", html`<bdi>${alert.acknowledged_by}</bdi>${alert.assigned_to && html` <small>assigned to <bdi>${alert.assigned_to}</bdi></small>`}`)}
    ${alert.muted_until && alert.state === "acknowledged" && fact("Silent until", html`<${ServiceTime} at=${alert.muted_until} />`)}
    ${alert.resolved_at && fact("Resolved", html`<${ServiceTime} at=${alert.resolved_at} /> <small>${ENDED[alert.resolved_because] ?? alert.resolved_because}</small>`)}
  </dl></section>`;
}

/** The refits that were asked for since the change was noticed. @param {{ alert: any }} props */
function Refits({ alert }) {
  const { data } = useAnswer(`v1/models/${modelPath(alert.model)}/recalibrations?limit=100`, 5);
  const since = (data?.recalibrations ?? []).filter(
    (/** @type {any} */ job) => job.version === alert.version && job.requested_at >= alert.pending_since,
  );
  if (!since.length) return null;
  return html`<p>${plural(since.length, "refit")} since:</p><ul>${since.map(
    (/** @type {any} */ job) =>
      html`<li><a href="${ROOT}recalibrations/${encodeURIComponent(job.id)}">${job.method}</a> <${State} state=${job.state} /> <small><${ServiceTime} at=${job.requested_at} relative /></small></li>`,
  )}</ul>`;
}

/** Who has it from now on, and for how long it is silent. @param {{ alert: any }} props */
function Terms({ alert }) {
  return html`<p><label>Assigned to <input name="assigned_to" maxlength="128" placeholder="a name" defaultValue=${alert.assigned_to ?? ""} /></label>
    <label>Silent <select name="until">${alert.state === "acknowledged" && alert.muted_until && html`<option value=${alert.muted_until}>until ${timeText(eventsTime(Date.parse(alert.muted_until)))}, as now</option>`}<option value="">until it is over</option>${SILENCES.map(
      ([value, text]) => html`<option value=${value}>${text}</option>`,
    )}</select></label></p>`;
}

/** @param {{ alert: any, roles: string[], again: () => void }} props */
function Actions({ alert, roles, again }) {
  const { model, version, change_point: point } = alert;
  if (alert.state !== "firing" && alert.state !== "acknowledged") return null;
  const acknowledge = async (/** @type {string} */ note, /** @type {FormData} */ answers) => {
    const [name, until] = [answers.get("assigned_to"), answers.get("until")];
    await sendJson(`v1/alerts/${alert.id}/acknowledgement`, { note, ...(name && { assigned_to: name }), ...(until && { until }) });
    again();
  };
  const rollBack = async (/** @type {string} */ note) => {
    await sendJson(`v1/models/${modelPath(model)}/rollback`, { version, note });
    again();
  };
  const firing = alert.state === "firing";
  const useless = alert.kind === HARM || (alert.document.remedy && !alert.document.remedy.command);
  return html`${
    may(roles, "write", model) &&
    html`<${Ask} main=${firing} label=${firing ? "Acknowledge" : "Add a note"} title=${firing ? "Acknowledge this alert" : "Acknowledge it again, with another note"} what=${html`<p>Others see that you have it, and reminders stop. It stays open until predictions are fine again, or a map is promoted.</p><${Terms} alert=${alert} />`} note="Note" act=${acknowledge} />
      ${!useless && html`<${AskRefit} model=${model} version=${version} alert=${alert.id} main=${!firing} label="Refit since the change" what=${html`<p>A map, which corrects predictions of <bdi>${model}</bdi> <bdi>${version}</bdi>, is fitted on the events since <${Time} at=${point.at} />, and compared on later ones. It serves only once it is promoted; that is asked on its page.</p>`} />`}`
  }${
    alert.kind === HARM &&
    may(roles, "promote", model) &&
    html`<${Ask} main=${!firing} label="Roll the map back" title="Take this map back" what=${html`<p>What served <bdi>${model}</bdi> <bdi>${version}</bdi> before serves again, or no map at all. This map is never promoted again, and this alert is resolved.</p>`} note="Note for the audit trail" act=${rollBack} />`
  }`;
}

/** @param {{ roles: string[] }} props */
function Alert({ roles }) {
  const { data: alert, failure, again } = useAnswer(`v1/alerts/${encodeURIComponent(ID)}`);
  useTitle(alert ? `${alert.model} ${alert.version}: alert` : "Alert");
  if (!alert) return html`<${Problem} failure=${failure} />`;
  const { document: told, model, version } = alert;
  const spans = [
    told.before?.labelled > 0 && reported("Before the change", told.before),
    told.after?.labelled > 0 && reported("Since the change", told.after),
  ].filter((span) => span);
  return html`<${Problem} failure=${failure} stale />
    <div class="bar"><h1><${ModelLink} model=${model} version=${version} /> <small>version <bdi>${version}</bdi></small></h1> <${State} state=${alert.state} />
      <span class="right"></span><${Actions} alert=${alert} roles=${roles} again=${again} /></div>
    <p class=${`lead ${toneOf(alert.state)}`}><bdi>${sentence(alert.summary || "Evidence grows; what is wrong is said once an alert fires")}</bdi> <${Help} to=${`answers.html#${told.label ? `label-${told.label}` : `kind-${alert.kind}`}`} /></p>
    <div class="grid">
      <${Facts} alert=${alert} />
      <section class="card"><h2>What to do</h2>
        <p>${sentence(told.remedy?.text ?? "Nothing yet: it may pass")}</p>
        ${told.remedy?.command && html`<p><code>${told.remedy.command}</code></p>`}
        <${Refits} alert=${alert} />
      </section>
      <${Evidence} alert=${alert} />
      ${told.segments?.length > 0 && html`<${Segments} segments=${told.segments} />`}
      ${alert.kind === HARM && html`<${Harm} before=${told.before} after=${told.after} />`}
      ${
        alert.kind !== HARM &&
        spans.length > 0 &&
        html`<section class="card wide"><h2>Before and since the change</h2><${SideBySide} spans=${spans} />
        ${spans.length === 1 && html`<p class="soft"><small>Of the time before the change no predictions are kept.</small></p>`}</section>`
      }
      <section class="card wide"><h2>History and notes</h2><div class="scroll"><table>
        <thead><tr>${["When", "State", "Who", "Note"].map((head) => html`<th scope="col" class="text">${head}</th>`)}</tr></thead>
        <tbody>${alert.history.map(
          (/** @type {any} */ one) => html`<tr>
        <td class="text"><${ServiceTime} at=${one.at} /></td><td class="text"><${State} state=${one.state} /></td><td class="text"><bdi>${one.actor}</bdi></td><td class="text"><bdi>${inZone(one.note, eventsTime)}</bdi></td></tr>`,
        )}</tbody></table></div></section>
    </div>`;
}

show("alerts", Alert);
