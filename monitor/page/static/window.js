/* The report of one series in one window, of now or as it was. */

import { modelPath, ROOT, withQuery } from "page/api.js";
import { Time } from "page/parts.js";
import { Reliability } from "page/plots/reliability.js";
import { Table } from "page/table.js";
import { Field, Help, Problem, show, useAnswer, useTitle } from "page/ui.js";
import { html, useEffect, useState } from "page/vendor/preact.js";
import { certain, count, inputTime, interval, inZone, number, percent, sentence, timeOfInput, windowNames } from "page/words.js";

const PLACE = "/reports/";
const MODEL = decodeURIComponent(location.pathname.slice(location.pathname.indexOf(PLACE) + PLACE.length));
const PATH = `v1/models/${modelPath(MODEL)}`;
/** @type {Record<string, string>} */
const TONES = { waiting: "", quiet: "good", pending: "warn", firing: "bad" };
const UNITS = /** @type {Record<string, string>} */ ({ percent: " %" });

/** @param {{ label: string, value: string, options: string[], names?: Record<string, string>, onChange: (value: string) => void }} props */
function Choice({ label, value, options, names = {}, onChange }) {
  return html`<label>${label}${" "}<select value=${value} onChange=${(/** @type {any} */ event) => onChange(event.target.value)}>
    ${options.map((option) => html`<option value=${option}>${names[option] ?? option}</option>`)}</select></label>`;
}

/** What the service answered: its own URL would lead a browser back to the page. @param {{ data: any, text: string, path: string }} props */
function Json({ data, text, path }) {
  const [url, setUrl] = useState("");
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([JSON.stringify(data, null, 2)], { type: "application/json" }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [data]);
  return html`<a href=${url} target="_blank" title=${`GET /${path}`}>${text}</a>`;
}

/** @param {{ report: any, known: any[] }} props */
function Measures({ report, known }) {
  const of = new Map(known.map((measure) => [measure.name, measure]));
  const columns = [
    { heading: "measure", words: true },
    ...["value", "95% interval", "if calibrated", "95% of those below", "p"].map((heading) => ({ heading })),
  ];
  const rows = Object.entries({ ...report.measures, ...report.canonical }).map(([name, one]) => [
    { text: of.get(name)?.title ?? name },
    ...[
      certain(one.value, one.lower, one.upper) + (UNITS[one.unit] ?? ""),
      interval(one.lower, one.upper),
      number(one.null_mean),
      number(one.null_q95),
      number(one.p_value, 2),
    ].map((text) => ({ text })),
  ]);
  return html`<section class="card"><h2>The measures</h2>
    ${report.insufficient ? html`<p>None: there are too few predictions with an outcome.</p>` : html`<${Table} title="The measures" columns=${columns} rows=${rows} />`}
    ${Object.entries(report.omitted).map(([name, reason]) => html`<p class="soft">${of.get(name)?.title ?? name} is left out: ${reason}.</p>`)}
    ${report.intervals_outdated_since && html`<p class="soft">Intervals and levels are of earlier predictions, <${Time} at=${report.intervals_outdated_since} />.</p>`}
    <p class="soft"><small>A value is to be compared with what a calibrated model shows by chance, and never with 0.</small></p></section>`;
}

/** @param {{ report: any, model: any }} props */
function About({ report, model }) {
  const { performance } = report;
  const rows = [
    ["from", html`<${Time} at=${report.from} />`],
    ["to", html`<${Time} at=${report.to} />`],
    ["predictions", count(report.predictions)],
    ["with an outcome", `${count(report.n)} (${percent(report.label_coverage)})`],
    ["came true", percent(report.prevalence)],
    ["predicted on average", percent(report.mean_prediction)],
    ["settled up to", html`<${Time} at=${model?.settled_to} />`],
    ["evaluated", html`<${Time} at=${model?.evaluated_at} relative />`],
    ...(performance
      ? [
          ["accuracy", percent(performance.accuracy)],
          ["AUC", number(performance.auc)],
          ["log loss", number(performance.log_loss)],
        ]
      : []),
  ];
  return html`<section class="card"><h2>What it is about</h2><table><tbody>${rows.map(([name, value]) => html`<tr><th scope="row" class="text">${name}</th><td>${value}</td></tr>`)}</tbody></table>
    ${model?.held_back_by && html`<p class="soft">Held back by partition ${model.held_back_by.partition}: ${sentence(model.held_back_by.detail)}</p>`}</section>`;
}

function Report() {
  useTitle(`${MODEL}: report`);
  const [view, setView] = useState(() => Object.fromEntries(new URLSearchParams(location.search)));
  const change = (/** @type {Record<string, string>} */ part) => {
    const next = Object.fromEntries(Object.entries({ ...view, ...part }).filter(([, value]) => value));
    history.replaceState(null, "", withQuery(location.pathname, next));
    setView(next);
  };
  const query = { version: view.version, segment: view.segment, window: view.window, as_of: view.as_of };
  const path = withQuery(`${PATH}/report`, query);
  const { data: report, failure } = useAnswer(path, view.as_of ? 3600 : 10);
  const diagrams = useAnswer(withQuery(`${PATH}/diagrams`, query), view.as_of ? 3600 : 30);
  const listed = useAnswer(withQuery("v1/models", { model: MODEL }), 60);
  const measures = useAnswer("v1/measures", 3600);
  if (!report)
    return html`<h1>Report of <bdi>${MODEL}</bdi></h1><${Problem} failure=${failure} />${view.as_of && html`<button type="button" onClick=${() => change({ as_of: "" })}>Now</button>`}`;
  const versions = listed.data?.models[0]?.versions ?? [];
  const of = versions.find((/** @type {any} */ each) => each.version === report.version);
  const shown = { version: report.version, segment: report.segment, window: report.window };
  const windows = of?.windows ?? [report.window];
  const words = report.diagnosis?.sentence;
  return html`<${Problem} failure=${failure} stale />
    <div class="bar"><h1>Report of <a href=${withQuery(`${ROOT}models/${modelPath(MODEL)}`, shown)}><bdi>${MODEL}</bdi></a></h1>
      <span class="right"></span><${Json} data=${report} text="JSON" path=${path} /> ${diagrams.data && html`<${Json} data=${diagrams.data} text="JSON of the diagram" path=${`${PATH}/diagrams`} />`}</div>
    <div class="bar">
      <${Choice} label="Version" value=${report.version} options=${versions.map((/** @type {any} */ each) => each.version)} onChange=${(/** @type {string} */ version) => change({ version })} />
      <${Choice} label="Window" value=${report.window} options=${windows} names=${windowNames(windows)} onChange=${(/** @type {string} */ chosen) => change({ window: chosen })} />
      <${Choice} label="Segment" value=${report.segment} options=${of?.segments ?? [report.segment]} onChange=${(/** @type {string} */ segment) => change({ segment })} />
      <label>As of${" "}<${Field} type="datetime-local" value=${inputTime(Date.parse(view.as_of ?? ""))} onChange=${(/** @type {string} */ at) => change({ as_of: at && new Date(timeOfInput(at)).toISOString() })} /></label>
      ${view.as_of && html`<button type="button" onClick=${() => change({ as_of: "" })}>Now</button>`}
    </div>
    ${report.evidence && html`<p class=${`lead ${TONES[report.evidence.state]}`}><bdi>${sentence(report.evidence.words)} ${inZone(report.evidence.sentence)}</bdi></p>`}
    ${words && html`<p>In this window: <bdi>${sentence(words)}</bdi> <${Help} to=${`answers.html#verdict-${report.diagnosis.verdict}`} /> <small>A window alone is no alarm: one calibrated window in twenty is beyond chance.</small></p>`}
    <div class="grid">
      ${diagrams.data?.diagrams && html`<section class="card"><h2 class="unseen">Diagram</h2><${Reliability} title="What was predicted, and what came true" data=${diagrams.data.diagrams} smce=${report.measures.smce} /></section>`}
      <div class="stack"><${Measures} report=${report} known=${measures.data?.measures ?? []} />
      <${About} report=${report} model=${listed.data?.models[0]} /></div>
    </div>`;
}

show("", Report);
