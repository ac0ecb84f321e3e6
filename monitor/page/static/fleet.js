/* All models and versions, the worst first. */

import { askEarly, modelPath, ROOT } from "page/api.js";
import { TableExport } from "page/export.js";
import { evaluatedAt } from "page/live.js";
import { ABOUT, evidenceState, isOf, leading } from "page/open_alert.js";
import { State, Time, wordOf } from "page/parts.js";
import { Sparkline } from "page/plots/sparkline.js";
import { Problem, show, useAnswer, useTitle } from "page/ui.js";
import { html, useEffect, useMemo, useRef, useState } from "page/vendor/preact.js";
import { count, duration, inZone, percent, plural, sentence, short } from "page/words.js";

const MODELS = "v1/models?limit=1000";
const ALERTS = "v1/alerts?state=open&limit=1000";
const STEP = 60; // rows that are drawn at a time, as one scrolls
const OLD_MS = 120_000; // an evaluation is due every few seconds

/** The states, the worst first. */
const STATES = ["firing", "acknowledged", "failed", "pending", "stale", "insufficient", "waiting", "quiet"];

/** What is wrong, by the label of the evidence. @type {Record<string, string>} */
const FAULTS = {
  prior_shift: "too high or low overall",
  shape: "too high and low in parts",
  both: "too high or low, unevenly",
  missing_labels: "labels may be missing",
  unclear: "wrong, cause unclear",
  not_worse: "changed, but not worse",
  harm: "its map does harm",
};

/** Why predictions are not settled. @type {Record<string, string>} */
const HOLDS = {
  not_read: "a partition is unread",
  behind: "reading is behind",
  outcomes_silent: "outcomes have stopped",
};

/**
 * @typedef {{ key: string, model: string, version: string, state: string, fault: string, detail: string, alert: string | null,
 *   past: (number | null)[] | null, evidence: number | null, line: number | null, perDay: number | null, coverage: number | null,
 *   settled: string | null, held: string, map: string | null, method: string | null, labels: string }} Row
 */

/** A column -> its title, what it holds, and what rows are ordered by. @type {Record<string, { title: string, about: string, text?: boolean, by: (row: Row) => number | string }>} */
const COLUMNS = {
  state: { title: "State", about: "The worst first", text: true, by: (row) => STATES.indexOf(row.state) },
  model: { title: "Model", about: "Model and version", text: true, by: (row) => row.model.toLowerCase() },
  evidence: {
    title: "Evidence",
    about: "How strongly outcomes speak against the predictions: an alert fires at the dashed line, which the budget of false alarms draws",
    text: true,
    by: (row) => (row.evidence === null || row.line === null ? 1000 : row.line - row.evidence),
  },
  fault: { title: "What is wrong", about: "In short; the model's page has the rest", text: true, by: (row) => row.fault || "~" },
  predictions: { title: "A day", about: "Predictions a day", by: (row) => -(row.perDay ?? -1) },
  coverage: { title: "Labelled", about: "Share of predictions whose outcome is known", by: (row) => row.coverage ?? 2 },
  settled: {
    title: "Settled to",
    about: "Predictions before this time have had the time for their outcomes, and count in the evidence",
    by: (row) => row.settled ?? "",
  },
  serves: { title: "Serves", about: "The recalibration map that serves", text: true, by: (row) => row.method ?? "~" },
};

/** @param {any} model @param {any} version @param {any} alert @returns {string} */
function stateOf(model, version, alert) {
  if (alert) return alert.state;
  if (model.state !== "measured") return model.state;
  // A model that sent nothing for a while is not stale: what came of it is settled, or waits for its outcomes as always.
  const state = evidenceState(version);
  return model.held_back_by && model.held_back_by.reason !== "idle" && state === "quiet" ? "stale" : state;
}

/** @param {string} state @param {any} model @param {any} version */
function faultOf(state, model, version) {
  if (state === "stale") return HOLDS[model.held_back_by.reason] ?? "settled no further";
  if (state === "failed") return "its evaluation failed";
  if (version.label_coverage === 0) return "no outcomes yet";
  if (state === "insufficient") return "";
  return FAULTS[version.evidence?.label] ?? "";
}

/** @param {any} of a model's version */
const keyOf = (of) => `${of.model}\n${of.version}`;

/**
 * The history of each version, by its key, from the first step in which any has one: a young fleet would have a corner of 14 days.
 * @param {any} evidence as `GET /v1/evidence` answers; null: nothing yet
 * @returns {{ rows: Map<string, (number | null)[]>, length: string }} length: such as "14 d"; nothing of a single step
 */
function historyOf(evidence) {
  const versions = /** @type {any[]} */ (evidence?.versions ?? []);
  const firsts = versions
    .map((row) => row.above_line.findIndex((/** @type {number | null} */ value) => value !== null))
    .filter((at) => at >= 0);
  const begin = firsts.length ? Math.min(...firsts) : 0;
  const [from, to] = [evidence?.times[begin], evidence?.times.at(-1)].map(Date.parse);
  return {
    rows: new Map(versions.map((row) => [keyOf(row), row.above_line.slice(begin)])),
    length: to > from ? duration((to - from) / 1000) : "",
  };
}

/**
 * A row for each version, of the answers of the service.
 * @param {any[]} models @param {Map<string, (number | null)[]>} past of each version @param {any[] | null} alerts that are open; null: not known yet @returns {Row[]}
 */
function rowsOf(models, past, alerts) {
  const open = new Map(alerts?.map((alert) => [keyOf(alert), /** @type {any[]} */ ([])]));
  for (const alert of alerts ?? []) open.get(keyOf(alert))?.push(alert);
  return models.flatMap((model) =>
    (model.versions.length ? model.versions : [{ version: "" }]).map((/** @type {any} */ version) => {
      const of = { model: model.model, version: version.version };
      const alert = leading(open.get(keyOf(of)) ?? [], version.evidence);
      // What the row leads to is what it names.
      const isOther = alert && !isOf(alert, version.evidence);
      const state = stateOf(model, version, alert);
      return {
        ...of,
        key: keyOf(of),
        state,
        fault: isOther ? (ABOUT[alert.kind] ?? alert.kind) : faultOf(state, model, version),
        detail: inZone((isOther ? alert.summary : version.evidence?.sentence) ?? ""),
        alert: alert?.id ?? null,
        past: past.get(keyOf(of)) ?? null,
        evidence: version.evidence?.log10_evidence ?? null,
        line: version.evidence?.log10_line ?? null,
        perDay: version.predictions_per_day ?? null,
        coverage: version.label_coverage ?? null,
        settled: model.settled_to,
        held: model.held_back_by?.detail ?? "",
        map: version.serves?.map ?? null,
        method: version.serves?.method ?? null,
        labels: Object.entries(model.labels)
          .map(([name, value]) => `${name}:${value}`)
          .join("\n"),
      };
    }),
  );
}

/** Model and version, as a link. @param {Row} row */
const link = (row) => `${ROOT}models/${modelPath(row.model)}${row.version && `?version=${encodeURIComponent(row.version)}`}`;

/** @typedef {{ text: string, state: string, label: string, sort: string, down: boolean }} View */

/** The rows that fit, in order. @param {Row[]} rows @param {View} view */
function select(rows, { text, state, label, sort, down }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (/** @type {Row} */ row) => {
    if ((state && row.state !== state) || (label && !row.labels.split("\n").includes(label))) return false;
    const all = `${row.model} ${row.version} ${wordOf(row.state)} ${row.fault} ${row.method ?? ""} ${row.labels}`.toLowerCase();
    return words.every((word) => all.includes(word));
  };
  /** @type {((row: Row) => number | string)[]} */
  const orders = [COLUMNS[sort].by, COLUMNS.evidence.by, COLUMNS.model.by];
  const ranked = rows.filter(fits).map((row) => ({ row, ranks: orders.map((by) => by(row)) }));
  ranked.sort((one, other) => {
    const at = one.ranks.findIndex((rank, place) => rank !== other.ranks[place]);
    if (at < 0) return 0;
    const first = one.ranks[at] < other.ranks[at] ? -1 : 1;
    return down && at === 0 ? -first : first;
  });
  return ranked.map(({ row }) => row);
}

/** The view that the URL holds. @returns {View} */
function readView() {
  const query = new URLSearchParams(location.search);
  const of = (/** @type {string} */ name) => query.get(name) ?? "";
  return {
    text: of("q"),
    state: of("state"),
    label: of("label"),
    sort: of("sort") in COLUMNS ? of("sort") : "state",
    down: query.has("down"),
  };
}

/** @param {View} view */
function writeView({ text, state, label, sort, down }) {
  const query = new URLSearchParams(
    Object.entries({ q: text, state, label, sort: sort === "state" ? "" : sort }).filter(([, value]) => value),
  );
  if (down) query.set("down", "");
  const search = query.toString();
  history.replaceState(null, "", search ? `?${search}` : location.pathname);
}

/** @param {{ row: Row }} props */
function Version({ row }) {
  const of = COLUMNS;
  // The same row is the same drawing: of a thousand, those that changed are drawn.
  return useMemo(
    () => html`<tr data-key=${row.key}>
    <td class="text"><${State} state=${row.state} /></td>
    <td class="text name"><a href=${link(row)} title=${row.model}><bdi>${row.model}</bdi></a> <small><bdi>${row.version}</bdi></small>
      ${row.labels && html` <small class="labels">${row.labels.split("\n").map((label) => html`<bdi>${label}</bdi> `)}</small>`}</td>
    <td class="text" data-title=${of.evidence.title}><${Sparkline} past=${row.past} state=${row.state} evidence=${row.evidence} line=${row.line} /></td>
    <td class="text what" title=${row.detail}>${row.alert ? html`<a href="${ROOT}alerts/${row.alert}">${row.fault || "see the alert"}</a>` : row.fault}</td>
    <td data-title=${of.predictions.title}>${short(row.perDay)}</td>
    <td data-title=${of.coverage.title}>${percent(row.coverage)}</td>
    <td data-title=${of.settled.title} title=${row.held} class=${row.held ? "late" : ""}><${Time} at=${row.settled} relative="events" /></td>
    <td class="text" data-title=${of.serves.title}>${row.map ? html`<a href="${ROOT}recalibrations/${row.map}">${row.method}</a>` : html`<span class="soft">no map</span>`}</td>
  </tr>`,
    Object.values(row),
  );
}

/** The keys of the page. @param {{ current: HTMLInputElement | null }} search @param {(least: number) => void} draw how many rows at least */
function useKeys(search, draw) {
  const key = useRef("");
  useEffect(() => {
    const links = () => /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("tr[data-key] .name a"));
    const move = (/** @type {number} */ by) => {
      const all = [...links()];
      const at = all.findIndex((one) => one.closest("tr")?.dataset.key === key.current);
      const next = all[Math.min(Math.max(at + by, 0), all.length - 1)];
      if (!next) return;
      key.current = next.closest("tr")?.dataset.key ?? "";
      next.focus({ preventScroll: true });
      next.closest("tr")?.scrollIntoView({ block: "nearest" });
      draw(at + 2 * STEP);
    };
    const press = (/** @type {KeyboardEvent} */ event) => {
      const typing = /** @type {HTMLElement} */ (event.target).matches?.("input, select, textarea");
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "/" && !typing) {
        event.preventDefault();
        search.current?.focus();
        search.current?.select();
      } else if (event.target === search.current && event.key === "Enter") links()[0]?.click();
      else if (event.target === search.current && event.key === "Escape") search.current?.blur();
      else if (!typing && (event.key === "j" || event.key === "k")) move(event.key === "j" ? 1 : -1);
      else if (!typing && event.key === "Enter" && event.target === document.body) {
        [...links()].find((one) => one.closest("tr")?.dataset.key === key.current)?.click();
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

/** Whether events are read and models evaluated. @param {{ models: any[] }} props */
function Health({ models }) {
  const pipeline = useAnswer("v1/pipeline").data;
  const replicas = useAnswer("v1/replicas", 30).data;
  const newest = models.reduce((latest, { evaluated_at: at }) => (at && (!latest || at > latest) ? at : latest), null);
  const at = evaluatedAt() ?? newest;
  const isOld = at && Date.now() - Date.parse(at) > OLD_MS;
  const reads = pipeline?.phase === "running";
  return html`<p class="health">
    ${pipeline && (reads ? html`<span>Reading ${plural(pipeline.partitions.length, "partition")}, ${pipeline.records_behind ? `${plural(pipeline.records_behind, "record")} behind` : "up to date"}</span>` : html`<span class="wrong" title=${pipeline.detail}><span aria-hidden="true">✕ </span>${sentence(`Events are not read: ${pipeline.detail || pipeline.phase.replace("_", " ")}`)}</span>`)}
    ${replicas?.replicas.length > 0 && html`<span>${plural(replicas.replicas.length, "replica")}</span>`}
    <span class=${isOld ? "wrong" : ""}>${isOld && html`<span aria-hidden="true">○ </span>`}${at ? html`Evaluated <${Time} at=${at} relative />` : "Nothing evaluated yet"}</span>
  </p>`;
}

/** @param {{ counted: Record<string, number>, all: number }} props counted: versions by their state */
function Headline({ counted, all }) {
  const { firing = 0, failed = 0, insufficient = 0, waiting = 0 } = counted;
  const of = plural(all, "model version");
  if (firing) return html`<h1 class="wrong">${count(firing)} of ${of} ${firing === 1 ? "is" : "are"} firing</h1>`;
  if (failed) return html`<h1 class="wrong">${count(failed)} of ${of} could not be evaluated</h1>`;
  return html`<h1>${insufficient + waiting < all ? "All quiet" : "Nothing is known yet"}</h1>`;
}

function Fleet() {
  const { data, failure } = useAnswer(MODELS, 5, "models");
  const evidence = useAnswer("v1/evidence", 60).data;
  const alerts = useAnswer(ALERTS, 10, "alerts").data;
  useTitle("Fleet");
  const [view, setView] = useState(readView);
  const [drawn, setDrawn] = useState(STEP);
  const search = useRef(/** @type {any} */ (null));
  const end = useRef(/** @type {any} */ (null));
  const change = (/** @type {Partial<View>} */ part) => {
    const next = { ...view, ...part };
    writeView(next);
    setView(next);
    setDrawn(STEP);
  };
  const past = useMemo(() => historyOf(evidence), [evidence]);
  const all = useMemo(() => rowsOf(data?.models ?? [], past.rows, alerts?.alerts ?? null), [data, past, alerts]);
  const rows = useMemo(() => select(all, view), [all, view]);
  useEffect(() => {
    if (drawn >= rows.length) return undefined;
    const more = new IntersectionObserver(([end]) => end.isIntersecting && setDrawn(drawn + STEP), { rootMargin: "1500px" });
    more.observe(end.current);
    const print = () => setDrawn(rows.length);
    addEventListener("beforeprint", print);
    return () => {
      more.disconnect();
      removeEventListener("beforeprint", print);
    };
  }, [drawn, rows]);
  useKeys(search, (least) => setDrawn((before) => Math.max(before, least)));
  if (!data) return html`<${Problem} failure=${failure} />${!failure && html`<p class="soft">Asking for the models…</p>`}`;
  const counted = /** @type {Record<string, number>} */ ({});
  for (const { state } of all) counted[state] = (counted[state] ?? 0) + 1;
  const labels = [...new Set(all.flatMap((row) => row.labels.split("\n")))].filter(Boolean).sort();
  return html`<${Problem} failure=${failure} stale />
    <div class="bar"><${Headline} counted=${counted} all=${all.length} /><${Health} models=${data.models} /></div>
    <div class="bar">
      <input type="search" ref=${search} value=${view.text} placeholder="Search  /" aria-label="Search models" onInput=${(/** @type {any} */ event) => change({ text: event.target.value })} />
      <span class="soft" role="status">${rows.length < all.length && `${count(rows.length)} of ${count(all.length)}`}</span>
      ${labels.length > 0 && html`<select aria-label="Label" onChange=${(/** @type {any} */ event) => change({ label: event.target.value })}><option value="">All labels</option>${labels.map((label) => html`<option value=${label} selected=${label === view.label}>${label}</option>`)}</select>`}
      ${STATES.filter((state) => counted[state] || state === view.state).map((state) => html`<button type="button" aria-pressed=${view.state === state} onClick=${() => change({ state: view.state === state ? "" : state })}><${State} state=${state} /> ${counted[state] ?? 0}</button>`)}
    </div>
    ${data.caps.map((/** @type {any} */ { warning }) => warning && html`<p class="banner calm">▲ ${sentence(warning)}</p>`)}
    ${
      all.length === 0 &&
      html`<p class="lead">No model has sent events yet. <a href="${ROOT}docs">Send one over REST</a>, or start <code>monitor simulate</code>.</p>`
    }
    ${
      rows.length > 0 &&
      html`<table class="fleet">
      <thead><tr>${Object.entries(COLUMNS).map(
        ([name, { title, about, text }]) =>
          html`<th scope="col" class=${`${name} ${text ? "text" : ""}`} title=${about} aria-sort=${view.sort === name ? (view.down ? "descending" : "ascending") : null}>
        <button type="button" onClick=${() => change({ sort: name, down: view.sort === name && !view.down })}>${title}${name === "evidence" && past.length && `, ${past.length}`}<span aria-hidden="true">${view.sort === name ? (view.down ? " ▾" : " ▴") : ""}</span></button></th>`,
      )}</tr></thead>
      <tbody>${rows.slice(0, drawn).map((row) => html`<${Version} key=${row.key} row=${row} />`)}</tbody>
    </table>
    <${TableExport} title="models" within="main" /><p class="soft" ref=${end}><small>Keys: <kbd>/</kbd> search, <kbd>j</kbd> <kbd>k</kbd> move, <kbd>Enter</kbd> opens.</small></p>`
    }
    ${all.length > 0 && rows.length === 0 && html`<p class="lead">No model fits. <button type="button" onClick=${() => change({ text: "", state: "", label: "" })}>Show all</button></p>`}`;
}

askEarly(MODELS, ALERTS);
show("", Fleet);
