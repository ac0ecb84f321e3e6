/* One version of a model: how it is, since when, why, for whom, and what to do. */

import { ROOT, withQuery } from "page/api.js";
import { AskRefit } from "page/ask_refit.js";
import { TableExport } from "page/export.js";
import { BeforeAndSince, keptOf } from "page/model_changes.js";
import { Coverage, CoveragePlot } from "page/model_coverage.js";
import { Happenings, happened } from "page/model_events.js";
import { Lead, stateOf } from "page/model_lead.js";
import { EvidencePlot, MeasurePlot, PriorAndShape } from "page/model_plots.js";
import { Segments } from "page/model_segments.js";
import { Versions } from "page/model_versions.js";
import { AS_MODEL, askedRange, Controls, Folded, iso, Later, MODEL, PATH, timeOf, useView } from "page/model_view.js";
import { leading } from "page/open_alert.js";
import { State, Time } from "page/parts.js";
import { Reliability } from "page/plots/reliability.js";
import { Witness } from "page/plots/witness.js";
import { may, Problem, show, useAnswer, useTitle } from "page/ui.js";
import { html, useMemo } from "page/vendor/preact.js";
import { certain, count, eventsNow, interval, number, percent, sentence } from "page/words.js";

/** @typedef {import("page/plots/time.js").Shared} Shared */

const FIRST = "smce"; // the measure whose history has the course; the others are loaded once the reader unfolds them
const POINTS = 240; // as many as a plot shows apart
const SERVED = "Measures and diagrams are of predictions as the map that serves makes them; what is drawn over time is of the model's own.";
const EARLIER = "This window has predictions from before the map served, too, and shows them as if it had made them.";
const BEFORE_THE_MAP = "Measures and diagrams are of the predictions as the model makes them, before the map that serves.";

/** The numbers of one window. @param {{ report: any, measures: Map<string, any>, note: string, mixed: boolean }} props mixed: predictions are shown as a map makes them that served only a part of them */
function Report({ report, measures, note, mixed }) {
  return html`<section class="card"><${TableExport} title="measures of this window" /><h2>This window</h2>
    <p><${Time} at=${report.from} /> to <${Time} at=${report.to} />: ${count(report.predictions)} predictions${report.n > 0 && `, ${percent(report.label_coverage)} labelled, ${percent(report.prevalence)} came true`}.</p>
    ${mixed ? html`<p>${EARLIER}</p>` : report.insufficient ? html`<p>${sentence(report.insufficient)}</p>` : report.diagnosis && html`<p>${report.diagnosis.sentence} <small class="soft">In this window alone.</small></p>`}
    ${note && html`<p class="soft">${note}</p>`}
    ${
      Object.keys(report.measures).length > 0 &&
      html`<div class="scroll"><table><thead><tr><th scope="col" class="text">Measure</th><th scope="col">Value</th><th scope="col">95% interval</th><th scope="col">If calibrated, below</th></tr></thead>
    <tbody>${Object.entries(report.measures).map(
      ([name, one]) => html`<tr><th scope="row" class="text" title=${measures.get(name)?.help}>${measures.get(name)?.title ?? name}</th>
      <td>${certain(one.value, one.lower, one.upper)}${one.unit === "percent" ? " %" : ""}</td><td>${interval(one.lower, one.upper)}</td><td>${number(one.null_q95)}${one.null_q95 !== null && one.value > one.null_q95 ? html` <strong title="more than chance explains">▲</strong>` : ""}</td></tr>`,
    )}</tbody></table></div>
    <small class="soft">▲ more than chance explains.</small>`
    }</section>`;
}

/**
 * Whether windows can be shown as the map that serves makes their predictions: it must need nothing but these.
 * @param {string | undefined} method of the map @param {any} policy of the model
 */
function useMovable(method, policy) {
  const { data } = useAnswer(method ? "v1/recalibration-methods" : null, 3600);
  const of = data?.methods.find((/** @type {any} */ one) => one.name === method);
  return Boolean(of && !of.needs_features && !of.needs_segments && !policy?.classes.length);
}

/** All measures over time. @param {{ asked: any, from: number, to: number | null, measures: Map<string, any>, shared: Shared }} props */
function Measures({ asked, from, to, measures, shared }) {
  const { data, failure } = useAnswer(withQuery(`${PATH}/history`, { ...asked, from: iso(from), to: to && iso(to), points: POINTS }), 60);
  if (!data) return html`<${Problem} failure=${failure} />`;
  const names = [...new Set(data.points.flatMap((/** @type {any} */ point) => Object.keys(point.measures)))];
  return html`<div class="grid three">${names.map(
    (name) =>
      html`<${MeasurePlot} key=${name} name=${name} title=${measures.get(name)?.title ?? name} help=${measures.get(name)?.help} points=${data.points} shared=${shared} />`,
  )}</div>`;
}

/** @param {{ roles: string[] }} props */
function Model({ roles }) {
  useTitle(MODEL);
  const [view, change] = useView();
  const listed = useAnswer(withQuery("v1/models", { model: MODEL }), 10);
  const model = listed.data?.models[0];
  const version = view.version ?? model?.current_version ?? "";
  const of = model?.versions.find((/** @type {any} */ one) => one.version === version);
  const segment = view.segment ?? "all";
  const window = view.window ?? of?.windows.at(-1) ?? "";
  const asked = { version, segment, window };
  const ready = (/** @type {string} */ path) => (of ? path : null);
  const refits = useAnswer(ready(`${PATH}/recalibrations`), 30);
  const jobs = refits.data?.recalibrations.filter((/** @type {any} */ job) => job.version === version) ?? [];
  const serving = jobs.find((/** @type {any} */ job) => job.state === "champion");
  const movable = useMovable(serving?.method, model?.policy);
  const served = movable && view.predictions !== AS_MODEL ? "true" : null;
  const shown = { ...asked, as_of: view.as_of, served };
  const report = useAnswer(ready(withQuery(`${PATH}/report`, shown)));
  // Before anything is settled, such as while a service catches up with old events, the last window says where it is.
  const newest = model?.settled_to ?? (view.as_of ? null : report.data?.to);
  const settled = newest ? Date.parse(newest) : eventsNow();
  const { from, to } = askedRange(view, settled);
  const span = { from: iso(from), to: to && iso(to), points: POINTS };
  const evidence = useAnswer(ready(withQuery(`${PATH}/evidence`, span)), 10);
  const alerts = useAnswer(ready(withQuery("v1/alerts", { model: MODEL, version })), 10);
  const diagrams = useAnswer(ready(withQuery(`${PATH}/diagrams`, shown)), 30);
  const past = useAnswer(ready(withQuery(`${PATH}/history`, { ...asked, measure: FIRST, ...span })), 30);
  const state = useAnswer(ready(withQuery(`${PATH}/recalibration`, { version })), 30);
  const catalogue = useAnswer("v1/measures", 3600);
  const all = alerts.data?.alerts ?? [];
  const alert = leading(all, of?.evidence);
  const told = useAnswer(alert ? `v1/alerts/${encodeURIComponent(alert.id)}` : null, 60);
  const versions = evidence.data?.versions ?? [];
  const compared = serving ? null : jobs.find((/** @type {any} */ job) => ["candidate", "rejected"].includes(job.state));
  const refit = useAnswer(compared ? `v1/recalibrations/${encodeURIComponent(compared.id)}` : null, 3600);
  const events = useMemo(
    () => happened({ version, alerts: all, refits: jobs, servings: state.data?.servings ?? [], evidence: versions, from }),
    [version, alerts.data, refits.data, state.data, evidence.data, from],
  );
  const points = past.data?.points ?? [];
  const of_version = versions.find((/** @type {any} */ one) => one.version === version);
  const first = [points[0]?.to, of_version?.history?.to[0]].filter(Boolean).map(Date.parse);
  const begin = to === null ? Math.max(from, Math.min(...first, settled - 1)) : from;
  const range = /** @type {[number, number]} */ (useMemo(() => [begin, to ?? settled], [begin, to, settled]));
  const shades = useMemo(
    () =>
      all
        .filter((/** @type {any} */ one) => one.state !== "resolved")
        .map((/** @type {any} */ one) => ({ from: Date.parse(one.change_point.from), to: Date.parse(one.change_point.to) })),
    [alerts.data],
  );
  if (!model)
    return html`<${Problem} failure=${listed.failure} />${listed.data && html`<h1>No such model</h1><p class="lead">There is no model <bdi>${MODEL}</bdi> that you may read.</p>`}`;
  const policy = model.policy;
  const known = (policy ? policy.horizon_seconds + policy.lateness_seconds : 0) * 1000;
  const shared = {
    range,
    onRange: (/** @type {[number, number] | null} */ range) =>
      change(range ? { from: iso(range[0]), to: iso(range[1]) } : { from: null, to: null }),
    marks: events,
    shades,
    at: report.data && view.as_of ? Date.parse(report.data.to) : null,
    // The window that ended there was settled once its outcomes were known.
    onPick: (/** @type {number} */ at) => change({ as_of: iso(at + known) }),
  };
  const since = alert?.change_point.at ?? of?.evidence.since;
  const changed = since && !view.as_of; // who looks back asks for the window that ended then
  // The rest is loaded once the reader is near, and that is known once what stands first is there.
  const isThere = (report.data || report.failure) && past.data && evidence.data;
  const servedFrom = state.data?.servings?.findLast((/** @type {any} */ one) => one.map)?.from;
  // What is shown is still of the other choice until the answer to this one is there.
  const asServed = report.of?.includes("served=true") ?? false;
  const mixed = Boolean(asServed && servedFrom && report.data?.from < servedFrom);
  const measures = new Map((catalogue.data?.measures ?? []).map((/** @type {any} */ one) => [one.name, one]));
  const ofWindow = html`${diagrams.data?.diagrams && html`<section class="card"><h2 class="unseen">Diagram</h2><${Reliability} title="How often predictions came true" data=${diagrams.data.diagrams} level=${report.data?.measures.tce?.null_q95 ?? null} smce=${report.data?.measures.smce} /></section>`}
    ${report.data && html`<${Report} report=${report.data} measures=${measures} note=${asServed ? SERVED : serving ? BEFORE_THE_MAP : ""} mixed=${mixed} />`}
    ${diagrams.data?.diagrams && html`<section class="card"><h2>Where it is wrong</h2><${Witness} data=${diagrams.data.diagrams} /></section>`}`;
  return html`<${Problem} failure=${listed.failure} stale />
    <div class="bar"><h1><bdi>${MODEL}</bdi> ${version && html`<small>version <bdi>${version}</bdi></small>`}</h1> <${State} state=${stateOf(model, of, alert)} />
      <span class="right"></span>
      ${of && may(roles, "write", MODEL) && html`<${AskRefit} model=${MODEL} version=${version} label="Refit" what=${html`<p>A map, which corrects predictions, is fitted on the events that the settings of <bdi>${MODEL}</bdi> choose, and compared on later ones. It serves only once it is promoted; that is asked on its page.</p>`} />`}
    </div>
    <${Lead} model=${model} of=${of} alert=${alert} report=${report.data} serving=${serving} refit=${refit.data} />
    ${model.versions.length > 0 && html`<${Controls} view=${view} change=${change} model=${model} version=${version} window=${window} segment=${segment} range=${range} served=${movable ? served !== null : null} />`}
    <${Problem} failure=${report.failure} />
    ${view.as_of && report.data && !report.failure && html`<p class="banner calm">What was known <${Time} at=${iso(timeOf(view.as_of) ?? 0)} />: the window from <${Time} at=${report.data.from} /> to <${Time} at=${report.data.to} />. The sentence above is of now.</p>`}
    <div class="grid three window" aria-busy=${String(![report, past, evidence, alerts, diagrams, state, refits, catalogue].every((one) => one.data || one.failure))}>
      ${changed ? html`<${BeforeAndSince} version=${version} segment=${segment} served=${served} at=${Date.parse(since)} settled=${settled} kept=${keptOf(of.windows)} document=${told.data?.document} />` : ofWindow}
    </div>
    ${isThere && of.segments.length > 1 && html`<${Later} title="Segments and classes"><div class="grid"><${Segments} measures=${measures} version=${version} window=${window} count=${of.segments.length} range=${range} marks=${events} blamed=${told.data?.document.segments ?? []} onPick=${(/** @type {string} */ name) => change({ segment: name === "all" ? null : name })} /></div></${Later}>`}
    <div class="grid three">
      ${of_version?.history && html`<${EvidencePlot} evidence=${of_version} shared=${shared} />`}
      ${points.some((/** @type {any} */ point) => point.n) && html`<${PriorAndShape} points=${points} shared=${shared} />`}
      ${points.length > 0 && html`<${CoveragePlot} points=${points} shared=${shared} />`}
    </div>
    ${
      isThere &&
      html`<${Later} title="Labels, versions and events"><div class="grid"><${Coverage} version=${version} /><${Happenings} events=${events} />
        ${model.versions.length > 1 && html`<${Versions} versions=${model.versions} version=${version} evidence=${versions} window=${window} segment=${segment} shared=${shared} onPick=${(/** @type {string} */ name) => change({ version: name, segment: null })} />`}</div></${Later}>
      <${Folded} title=${changed ? "This window, and all measures" : "All measures"}>
        ${changed && html`<div class="grid three window">${ofWindow}</div>`}
        <${Measures} asked=${asked} from=${from} to=${to} measures=${measures} shared=${shared} />
      </${Folded}>`
    }
    <p class="soft"><small>Evaluated <${Time} at=${model.evaluated_at} relative />, settled to <${Time} at=${model.settled_to} />. <a href=${ROOT + withQuery(`${PATH}/report`, asked)}>This window's report</a></small></p>`;
}

show("", Model);
