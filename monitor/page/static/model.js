/* One version of a model: how it is, since when, why, for whom, and what to do. */

import { modelPath, ROOT, sendJson, withQuery } from "page/api.js";
import { Ask } from "page/dialog.js";
import { Power, State, Time, toneOf } from "page/parts.js";
import { Reliability } from "page/plots/reliability.js";
import { TimePlot } from "page/plots/time.js";
import { may, Problem, show, useAnswer } from "page/ui.js";
import { html, useMemo, useState } from "page/vendor/preact.js";
import { certain, count, interval, number, percent, sentence, short } from "page/words.js";

const MODEL = decodeURIComponent(location.pathname.slice(location.pathname.indexOf("/models/") + "/models/".length));
const PATH = `v1/models/${modelPath(MODEL)}`;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** @type {Record<string, number | null>} */
const RANGES = { "all that is kept": null, "24 hours": DAY_MS, "7 days": 7 * DAY_MS, "14 days": 14 * DAY_MS, "90 days": 90 * DAY_MS };
const USUAL = "14 days";

/** A detector -> what it finds. @type {Record<string, string>} */
const DETECTORS = {
  calibration: "predictions are wrong",
  prevalence: "wrong by more than a shift of the prior",
  change: "outcomes have changed",
  serving_map: "the map does harm",
};

/** @param {Record<string, string | null>} part */
function putInUrl(part) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(part)) value ? query.set(name, value) : query.delete(name);
  const text = query.toString();
  history.replaceState(null, "", text ? `?${text}` : location.pathname);
}

/** What the URL asks for, and changes of it. @returns {[Record<string, string>, (part: Record<string, string | null>) => void]} */
function useView() {
  const read = () => Object.fromEntries(new URLSearchParams(location.search));
  const [view, setView] = useState(read);
  const change = (/** @type {Record<string, string | null>} */ part) => {
    putInUrl(part);
    setView(read());
  };
  return [view, change];
}

/** @param {{ label: string, value: string, options: string[], onChange: (value: string) => void }} props */
function Choice({ label, value, options, onChange }) {
  if (options.length < 2) return null;
  return html`<label>${label}${" "}<select value=${value} onChange=${(/** @type {any} */ event) => onChange(event.target.value)}>
    ${options.map((option) => html`<option value=${option}>${option}</option>`)}</select></label>`;
}

/** What happened, as marks on every axis of time. @param {any[]} alerts @param {any[]} refits @returns {import("page/plots/time.js").Mark[]} */
function marksOf(alerts, refits) {
  const fired = alerts.filter((alert) => alert.firing_since);
  return [
    ...fired.map((alert) => ({ at: Date.parse(alert.change_point.at), text: "change", tone: "warn" })),
    ...fired.map((alert) => ({ at: Date.parse(alert.settled_to), text: "alert", tone: "bad" })),
    ...refits
      .filter((job) => job.state === "champion" || job.state === "retired")
      .map((job) => ({ at: Date.parse(job.finished_at), text: job.method, tone: "seen" })),
  ];
}

/** @param {{ evidence: any, range: [number, number], onRange: any, marks: any }} props */
function EvidencePlot({ evidence, range, onRange, marks }) {
  const { times, lines } = useMemo(() => {
    const past = evidence.history;
    const named = Object.entries(past.detectors);
    return {
      times: past.to.map(Date.parse),
      lines: [
        ...named.map(([name, of]) => ({
          name: DETECTORS[name] ?? name,
          values: of.log10_evidence.map((/** @type {number | null} */ value) => Math.max(value ?? -1, -1)),
        })),
        { name: "an alert fires", values: named[0]?.[1].log10_line ?? [], dashed: true },
      ],
    };
  }, [evidence]);
  return html`<section class="card wide"><h2>Evidence</h2>
    <${TimePlot} title="Evidence of each detector, and the line at which the budget lets an alert fire" times=${times} lines=${lines} range=${range} onRange=${onRange} marks=${marks} least=${-1} written=${power} height=${240} />
    ${evidence.shock && html`<p class="soft"><small>${evidence.shock.sentence}</small></p>`}
  </section>`;
}

/** @param {number | null} value */
const power = (value) => (value === null || value === undefined ? "–" : `10^${number(value, 2)}`);

/** @param {{ name: string, title: string, help: string, points: any[], range: [number, number], onRange: any, marks: any }} props */
function MeasurePlot({ name, title, help, points, range, onRange, marks }) {
  const { times, lines } = useMemo(() => {
    const of = points.map((point) => point.measures[name] ?? {});
    const column = (/** @type {string} */ key) => of.map((one) => one[key] ?? null);
    return {
      times: points.map((point) => Date.parse(point.to)),
      lines: [
        { name: title, values: column("value"), lower: column("lower"), upper: column("upper") },
        { name: "95 of 100 calibrated models are below", values: column("null_q95"), dashed: true },
      ],
    };
  }, [points]);
  return html`<section class="card" title=${help}><${TimePlot} title=${title} times=${times} lines=${lines} range=${range} onRange=${onRange} marks=${marks} least=${0} /></section>`;
}

/** @param {{ points: any[], range: [number, number], onRange: any, marks: any }} props */
function PriorPlot({ points, range, onRange, marks }) {
  const { times, lines } = useMemo(
    () => ({
      times: points.map((point) => Date.parse(point.to)),
      lines: [
        { name: "came true", values: points.map((point) => point.prevalence) },
        { name: "predicted on average", values: points.map((point) => point.mean_prediction) },
      ],
    }),
    [points],
  );
  return html`<section class="card"><${TimePlot} title="What was predicted, and what came true" times=${times} lines=${lines} range=${range} onRange=${onRange} marks=${marks} written=${percent} /></section>`;
}

/** @param {{ report: any, measures: any[] }} props */
function Report({ report, measures }) {
  const of = new Map(measures.map((measure) => [measure.name, measure]));
  return html`<section class="card"><h2>This window</h2>
    <p><${Time} at=${report.from} /> to <${Time} at=${report.to} />: ${count(report.predictions)} predictions, ${percent(report.label_coverage)} labelled, ${percent(report.prevalence)} came true.</p>
    ${report.diagnosis && html`<p>${report.diagnosis.sentence} <small class="soft">In this window alone.</small></p>`}
    ${report.insufficient && html`<p>${sentence(report.insufficient)}</p>`}
    <div class="scroll"><table><thead><tr><th scope="col" class="text">Measure</th><th scope="col">Value</th><th scope="col">95% interval</th><th scope="col">If calibrated, below</th></tr></thead>
    <tbody>${Object.entries(report.measures).map(
      ([name, one]) => html`<tr><th scope="row" class="text" title=${of.get(name)?.help}>${of.get(name)?.title ?? name}</th>
      <td>${certain(one.value, one.lower, one.upper)}${one.unit === "percent" ? " %" : ""}</td><td>${interval(one.lower, one.upper)}</td><td>${number(one.null_q95)}</td></tr>`,
    )}</tbody></table></div></section>`;
}

/** The lead: how it is, and what to do. @param {{ state: string, alert: any, evidence: any }} props */
function Lead({ state, alert, evidence }) {
  if (alert)
    return html`<p class=${`lead ${toneOf(alert.state)}`}><a href="${ROOT}alerts/${alert.id}"><bdi>${sentence(alert.summary)}</bdi></a></p>`;
  const strongest = evidence?.detectors.toSorted(
    (/** @type {any} */ one, /** @type {any} */ other) =>
      (other.log10_evidence ?? -9) - other.log10_line - ((one.log10_evidence ?? -9) - one.log10_line),
  )[0];
  if (!strongest) return html`<p class="lead">Not enough settled predictions with outcomes yet.</p>`;
  return html`<p class=${`lead ${toneOf(state)}`}>Nothing speaks against it: evidence <${Power} log10=${strongest.log10_evidence ?? 0} />, and an alert fires at <${Power} log10=${strongest.log10_line} />. Settled to <${Time} at=${evidence.settled_to} relative />.</p>`;
}

/** @param {{ roles: string[] }} props */
function Model({ roles }) {
  const [view, change] = useView();
  const listed = useAnswer(withQuery("v1/models", { model: MODEL }), 10);
  const known = listed.data?.models[0];
  const version = view.version ?? known?.current_version;
  const of = known?.versions.find((/** @type {any} */ each) => each.version === version);
  const segment = view.segment ?? "all";
  const window_ = view.window ?? of?.windows.at(-1);
  const settled = known?.settled_to ? Date.parse(known.settled_to) : Date.now();
  const span = RANGES[view.range ?? USUAL] ?? settled;
  const chosen = view.from && view.to;
  // To the hour, so that the question does not change with each evaluation.
  const from = chosen ? Number(view.from) : Math.floor((settled - span) / HOUR_MS) * HOUR_MS;
  const iso = (/** @type {number} */ ms) => new Date(ms).toISOString();
  const ready = (/** @type {string} */ path) => (of ? path : null);
  const asked = { version, segment, window: window_ };
  const report = useAnswer(ready(withQuery(`${PATH}/report`, { ...asked, as_of: view.as_of })));
  const diagrams = useAnswer(ready(withQuery(`${PATH}/diagrams`, { ...asked, as_of: view.as_of })), 30);
  const past = useAnswer(ready(withQuery(`${PATH}/history`, { ...asked, from: iso(from), to: chosen ? iso(Number(view.to)) : null })), 30);
  const evidence = useAnswer(
    ready(withQuery(`${PATH}/evidence`, { version, from: iso(from), to: chosen ? iso(Number(view.to)) : null })),
    10,
  );
  const alerts = useAnswer(ready(withQuery("v1/alerts", { model: MODEL, version })), 10);
  const refits = useAnswer(ready(`${PATH}/recalibrations`), 30);
  const measures = useAnswer("v1/measures", 3600);
  const found = alerts.data?.alerts ?? [];
  const jobs = refits.data?.recalibrations.filter((/** @type {any} */ job) => job.version === version) ?? [];
  const marks = useMemo(() => marksOf(found, jobs), [alerts.data, refits.data]);
  const points = past.data?.points ?? [];
  const first = points.length ? Date.parse(points[0].to) : from;
  const range = /** @type {[number, number]} */ (
    useMemo(() => (chosen ? [from, Number(view.to)] : [Math.max(from, first), settled]), [from, view.to, first, settled])
  );
  if (!known)
    return html`<${Problem} failure=${listed.failure} />${listed.data && html`<p class="lead">There is no model <bdi>${MODEL}</bdi> that you may read.</p>`}`;
  const setRange = (/** @type {[number, number] | null} */ chosen) =>
    change(chosen ? { from: String(Math.round(chosen[0])), to: String(Math.round(chosen[1])) } : { from: null, to: null });
  const of_version = evidence.data?.versions.find((/** @type {any} */ each) => each.version === version);
  const open = found.find((/** @type {any} */ alert) => alert.state === "firing" || alert.state === "acknowledged");
  const pending = found.find((/** @type {any} */ alert) => alert.state === "pending");
  const state = (open ?? pending)?.state ?? (known.state === "measured" ? "quiet" : known.state);
  const serving = jobs.find((/** @type {any} */ job) => job.state === "champion");
  const refit = async () => {
    const made = await sendJson(`${PATH}/recalibrations`, { version });
    location.href = `${ROOT}recalibrations/${made.id}`;
  };
  const titles = new Map((measures.data?.measures ?? []).map((/** @type {any} */ each) => [each.name, each]));
  const names = [...new Set(points.flatMap((/** @type {any} */ point) => Object.keys(point.measures)))];
  const main = ["tce", "kce", "smce", "intce"].filter((name) => names.includes(name));
  const plot = { range, onRange: setRange, marks };
  return html`<${Problem} failure=${listed.failure ?? report.failure} stale />
    <div class="bar"><h1><bdi>${MODEL}</bdi></h1> <${State} state=${state} />
      <${Choice} label="Version" value=${version} options=${known.versions.map((/** @type {any} */ each) => each.version)} onChange=${(/** @type {string} */ value) => change({ version: value })} />
      <span class="soft">${serving ? html`<a href="${ROOT}recalibrations/${serving.id}">${serving.method}</a> serves` : "no map serves"}</span>
      <span class="right"></span>
      ${may(roles, "write", MODEL) && html`<${Ask} label="Refit" title="Fit a new map" what=${html`<p>A map is fitted as the settings of ${MODEL} say, and compared on later events. It serves only once it is promoted.</p>`} act=${refit} />`}
    </div>
    <${Lead} state=${state} alert=${open ?? pending} evidence=${of_version} />
    <div class="bar">
      <${Choice} label="Window" value=${window_} options=${of?.windows ?? []} onChange=${(/** @type {string} */ value) => change({ window: value })} />
      <${Choice} label="Segment" value=${segment} options=${of?.segments ?? []} onChange=${(/** @type {string} */ value) => change({ segment: value === "all" ? null : value })} />
      <${Choice} label="Range" value=${view.range ?? USUAL} options=${Object.keys(RANGES)} onChange=${(/** @type {string} */ value) => change({ range: value, from: null, to: null })} />
      ${view.from && html`<button type="button" onClick=${() => setRange(null)}>Whole range</button>`}
      <span class="soft right">Drag on a plot to look closer, double-click to go back.</span>
    </div>
    <div class="grid">
      ${of_version?.history && html`<${EvidencePlot} evidence=${of_version} ...${plot} />`}
      ${diagrams.data?.diagrams && html`<section class="card"><${Reliability} title="How often predictions came true" data=${diagrams.data.diagrams} /></section>`}
      ${report.data && html`<${Report} report=${report.data} measures=${measures.data?.measures ?? []} />`}
      ${points.length > 0 && html`<${PriorPlot} points=${points} ...${plot} />`}
      ${main.map((name) => html`<${MeasurePlot} key=${name} name=${name} title=${titles.get(name)?.title ?? name} help=${titles.get(name)?.help} points=${points} ...${plot} />`)}
    </div>
    <p class="soft"><small>${short(report.data?.predictions)} predictions in this window; evaluated <${Time} at=${known.evaluated_at} relative />, settled to <${Time} at=${known.settled_to} />.</small></p>`;
}

show("", Model);
