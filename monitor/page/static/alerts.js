/* The alerts, the newest first. */

import { ROOT, send, withQuery } from "page/api.js";
import { Exports } from "page/export.js";
import { ABOUT } from "page/open_alert.js";
import { PastLine, ServiceTime, State, Time } from "page/parts.js";
import { Field, ModelLink, Problem, show, useAnswer, useTitle } from "page/ui.js";
import { html, useState } from "page/vendor/preact.js";
import { inZone, sentence } from "page/words.js";

/** @type {[string, string][]} */
const STATES = [
  ["open", "firing or acknowledged"],
  ["firing", "firing"],
  ["acknowledged", "acknowledged"],
  ["pending", "pending"],
  ["resolved", "resolved"],
];

const HEADS = [
  "State",
  "Model",
  "Version",
  "What",
  "Summary",
  "Evidence (log10)",
  "Alert line (log10)",
  "Changed",
  "Fired",
  "Who has it",
  "Silent until",
];

/** An alert as a row of a file: times in UTC, evidence as decimal logarithms. @param {any} alert */
const rowOf = (alert) =>
  [
    alert.state,
    alert.model,
    alert.version,
    ABOUT[alert.kind] ?? alert.kind,
    alert.summary,
    alert.log10_evidence,
    alert.log10_line,
    alert.change_point.at,
    alert.firing_since,
    alert.assigned_to ?? alert.acknowledged_by,
    alert.muted_until,
  ].map((value) => value ?? "");

function Alerts() {
  useTitle("Alerts");
  const [view, setView] = useState(() => Object.fromEntries(new URLSearchParams(location.search)));
  const [older, setOlder] = useState(/** @type {any} */ ({ alerts: [], next: null }));
  const query = withQuery("v1/alerts", { state: view.state, kind: view.kind, model: view.model });
  const { data, failure } = useAnswer(query);
  const change = (/** @type {Record<string, string>} */ part) => {
    const next = { ...view, ...part };
    const search = withQuery("", next);
    history.replaceState(null, "", search || location.pathname);
    setView(next);
    setOlder({ alerts: [], next: null });
  };
  if (!data) return html`<${Problem} failure=${failure} />`;
  const known = new Set(data.alerts.map((/** @type {any} */ alert) => alert.id));
  const alerts = [...data.alerts, ...older.alerts.filter((/** @type {any} */ alert) => !known.has(alert.id))];
  const next = older.alerts.length ? older.next : data.next_cursor;
  const more = async () => {
    const answer = await send(withQuery("v1/alerts", { state: view.state, kind: view.kind, model: view.model, cursor: next }));
    setOlder({ alerts: [...older.alerts, ...answer.alerts], next: answer.next_cursor });
  };
  const choose = (
    /** @type {string} */ name,
    /** @type {string} */ title,
    /** @type {[string, string][]} */ values,
  ) => html`<label>${title} 
    <select value=${view[name] ?? ""} onChange=${(/** @type {any} */ event) => change({ [name]: event.target.value })}>
      <option value="">all</option>${values.map(([value, text]) => html`<option value=${value}>${text}</option>`)}</select></label>`;
  return html`<${Problem} failure=${failure} stale />
    <div class="bar"><h1>Alerts</h1> ${choose("state", "State", STATES)} ${choose("kind", "Kind", Object.entries(ABOUT))}
      <label>Model <${Field} type="search" list="models" placeholder="all" value=${view.model ?? ""} onChange=${(/** @type {string} */ text) => change({ model: text.trim() })} /></label>
      <datalist id="models">${[...new Set(alerts.map((alert) => alert.model))].map((model) => html`<option value=${model}></option>`)}</datalist></div>
    ${alerts.length === 0 && html`<p class="lead good">No alert${view.state || view.kind || view.model ? " fits" : ""}. <span class="soft">One comes when the evidence against a model reaches the line that the budget of false alarms draws.</span></p>`}
    ${
      alerts.length > 0 &&
      html`<div class="scroll"><table class="rows">
      <thead><tr>${["State", "Model", "What", "Evidence", "Changed", "Fired", "Who has it"].map((head, at) => html`<th scope="col" class=${at === 3 ? "" : "text"}>${head}</th>`)}</tr></thead>
      <tbody>${alerts.map(
        (alert) => html`<tr key=${alert.id}>
        <td class="text"><${State} state=${alert.state} /></td>
        <td class="text name"><${ModelLink} model=${alert.model} version=${alert.version} /> <small>${alert.version}</small></td>
        <td class="text what"><a href="${ROOT}alerts/${alert.id}">${sentence(ABOUT[alert.kind] ?? alert.kind).slice(0, -1)}</a><br /><small><bdi>${inZone(alert.summary)}</bdi></small></td>
        <td data-title="Evidence"><${PastLine} log10=${alert.log10_evidence} line=${alert.log10_line} /></td>
        <td class="text" data-title="Changed"><${Time} at=${alert.change_point.at} /></td>
        <td class="text" data-title="Fired"><${ServiceTime} at=${alert.firing_since} relative /></td>
        <td class="text" data-title="Who has it">${alert.acknowledged_by ? html`<bdi>${alert.assigned_to ?? alert.acknowledged_by}</bdi>${alert.muted_until && html` <small>until <${ServiceTime} at=${alert.muted_until} /></small>`}` : html`<span class="soft">nobody</span>`}</td>
      </tr>`,
      )}</tbody></table></div><${Exports} title="alerts" heads=${HEADS} rows=${() => alerts.map(rowOf)} plot=${false} />`
    }
    ${next && html`<p><button type="button" onClick=${more}>Older ones</button></p>`}`;
}

show("alerts", Alerts);
