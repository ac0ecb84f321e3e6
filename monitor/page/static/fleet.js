/* All models and versions, the worst first. */

import { modelPath, ROOT } from "page/api.js";
import { State, Time } from "page/parts.js";
import { Sparkline } from "page/plots/sparkline.js";
import { Problem, show, useAnswer } from "page/ui.js";
import { html, useEffect, useMemo, useRef, useState } from "page/vendor/preact.js";
import { percent, plural, short } from "page/words.js";

const STEP = 100; // rows that are drawn at a time, so that a thousand do not hold the first ones up

/** How bad a state is. @type {Record<string, number>} */
const URGENCY = { firing: 0, acknowledged: 1, failed: 2, pending: 3, stale: 4, insufficient: 5, waiting: 6, quiet: 7 };

const FILTERS = ["firing", "acknowledged", "pending", "quiet", "insufficient", "stale", "failed", "waiting"];

/** A column -> its title, and what rows are ordered by. @type {Record<string, { title: string, text?: boolean, by: (row: any) => number | string }>} */
const COLUMNS = {
  state: { title: "State", text: true, by: (row) => URGENCY[row.state] },
  model: { title: "Model", text: true, by: (row) => row.model },
  evidence: { title: "Evidence", text: true, by: (row) => -(row.past?.at(-1) ?? -99) },
  what: { title: "What is found", text: true, by: (row) => row.words },
  predictions: { title: "Predictions a day", by: (row) => -(row.predictions_per_day ?? -1) },
  coverage: { title: "Labelled", by: (row) => row.label_coverage ?? 2 },
  settled: { title: "Settled to", by: (row) => row.settled_to ?? "" },
  serves: { title: "Serves", text: true, by: (row) => row.serves?.method ?? "~" },
};

/**
 * A row for each version, of the answers of the service.
 * @param {any} models @param {any} evidence @param {any} alerts
 */
function rowsOf(models, evidence, alerts) {
  const past = new Map((evidence?.versions ?? []).map((/** @type {any} */ row) => [`${row.model}\n${row.version}`, row.above_line]));
  const open = new Map(alerts.toReversed().map((/** @type {any} */ alert) => [`${alert.model}\n${alert.version}`, alert]));
  return models.flatMap((/** @type {any} */ model) => {
    const versions = model.versions.length ? model.versions : [{ version: "", evidence: { state: "waiting", words: "" } }];
    return versions.map((/** @type {any} */ each) => {
      const key = `${model.model}\n${each.version}`;
      const alert = open.get(key);
      const known = model.state === "measured" || alert ? (alert?.state ?? each.evidence.state) : model.state;
      const state = model.held_back_by && known === "quiet" ? "stale" : known;
      return {
        ...each,
        key,
        state,
        model: model.model,
        settled_to: model.settled_to,
        words: each.evidence.words,
        alert: alert?.id,
        past: past.get(key),
      };
    });
  });
}

/** When the newest evaluation was. @param {any[]} models @returns {string | null} */
const newest = (models) => models.reduce((latest, { evaluated_at: at }) => (at && (!latest || at > latest) ? at : latest), null);

/** Model and version, as a link. @param {any} row */
const link = (row) => `${ROOT}models/${modelPath(row.model)}?version=${encodeURIComponent(row.version)}`;

/** @param {any[]} rows @param {{ text: string, state: string, sort: string, down: boolean }} view */
function select(rows, { text, state, sort, down }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (/** @type {any} */ row) => {
    const label = `${row.model} ${row.version} ${row.words}`.toLowerCase();
    return (!state || row.state === state) && words.every((word) => label.includes(word));
  };
  const order = (/** @type {any} */ one, /** @type {any} */ other) => {
    const [a, b] = [COLUMNS[sort].by(one), COLUMNS[sort].by(other)];
    const first = a < b ? -1 : a > b ? 1 : COLUMNS.evidence.by(one) < COLUMNS.evidence.by(other) ? -1 : 1;
    return down ? -first : first;
  };
  return rows.filter(fits).sort(order);
}

/** The view that the URL holds. */
function readView() {
  const query = new URLSearchParams(location.search);
  const sort = query.get("sort") ?? "state";
  return { text: query.get("q") ?? "", state: query.get("state") ?? "", sort: sort in COLUMNS ? sort : "state", down: query.has("down") };
}

/** @param {ReturnType<typeof readView>} view */
function writeView({ text, state, sort, down }) {
  const query = new URLSearchParams();
  if (text) query.set("q", text);
  if (state) query.set("state", state);
  if (sort !== "state") query.set("sort", sort);
  if (down) query.set("down", "");
  const search = query.toString();
  history.replaceState(null, "", search ? `?${search}` : location.pathname);
}

/** @param {{ row: any, at: boolean }} props */
function Row({ row, at }) {
  return html`<tr class=${at ? "at" : ""} data-model=${row.model}>
    <td class="text"><${State} state=${row.state} /></td>
    <td class="text name"><a href=${link(row)}><bdi>${row.model}</bdi></a> <small>${row.version}</small></td>
    <td class="text" data-title="Evidence"><${Sparkline} past=${row.past} state=${row.state} /></td>
    <td class="text what">${row.alert ? html`<a href="${ROOT}alerts/${row.alert}"><bdi>${row.words}</bdi></a>` : html`<bdi>${row.words}</bdi>`}</td>
    <td data-title="A day">${short(row.predictions_per_day)}</td>
    <td data-title="Labelled">${percent(row.label_coverage)}</td>
    <td data-title="Settled"><${Time} at=${row.settled_to} relative /></td>
    <td class="text" data-title="Serves">${row.serves ? html`<a href="${ROOT}recalibrations/${row.serves.map}">${row.serves.method}</a>` : html`<span class="soft">no map</span>`}</td>
  </tr>`;
}

function Fleet() {
  const { data, failure } = useAnswer("v1/models?limit=1000");
  const evidence = useAnswer("v1/evidence", 30).data;
  const alerts = useAnswer("v1/alerts?state=open&limit=1000").data;
  const [view, setView] = useState(readView);
  const [at, setAt] = useState(-1);
  const [drawn, setDrawn] = useState(STEP);
  const search = useRef(/** @type {any} */ (null));
  const change = (/** @type {Partial<typeof view>} */ part) => {
    const next = { ...view, ...part };
    writeView(next);
    setView(next);
    setAt(-1);
  };
  const all = useMemo(() => rowsOf(data?.models ?? [], evidence, alerts?.alerts ?? []), [data, evidence, alerts]);
  const rows = useMemo(() => select(all, view), [all, view]);
  useEffect(() => {
    if (drawn >= rows.length) return undefined;
    const timer = requestAnimationFrame(() => setDrawn(drawn + STEP));
    return () => cancelAnimationFrame(timer);
  }, [drawn, rows]);
  useEffect(() => {
    const press = (/** @type {KeyboardEvent} */ event) => {
      const typing = /** @type {HTMLElement} */ (event.target).matches?.("input, select, textarea");
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "/" && !typing) {
        event.preventDefault();
        search.current.focus();
      } else if (event.key === "Escape" && typing) search.current.blur();
      else if ((event.key === "j" || event.key === "k") && !typing) {
        const next = Math.min(Math.max(at + (event.key === "j" ? 1 : -1), 0), rows.length - 1);
        setAt(next);
        setDrawn((before) => Math.max(before, next + STEP));
        requestAnimationFrame(() => document.querySelector("tr.at")?.scrollIntoView({ block: "nearest" }));
      } else if (event.key === "Enter" && !typing && at >= 0 && event.target === document.body) location.href = link(rows[at]);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [at, rows]);
  if (!data) return html`<${Problem} failure=${failure} />`;
  const counted = new Map(FILTERS.map((state) => [state, 0]));
  for (const row of all) counted.set(row.state, (counted.get(row.state) ?? 0) + 1);
  return html`<${Problem} failure=${failure} stale />
    <h1 class="unseen">Fleet</h1>
    <div class="bar">
      <input type="search" ref=${search} value=${view.text} placeholder="Search  /" aria-label="Search models" onInput=${(/** @type {any} */ event) => change({ text: event.target.value })} />
      ${FILTERS.filter((state) => counted.get(state)).map((state) => html`<button type="button" aria-pressed=${view.state === state} onClick=${() => change({ state: view.state === state ? "" : state })}><${State} state=${state} /> ${counted.get(state)}</button>`)}
      <span class="soft right">${plural(all.length, "version")}, evaluated <${Time} at=${newest(data.models)} relative /></span>
    </div>
    ${all.length === 0 && html`<p class="lead">No model has sent events yet. <a href="${ROOT}docs">Send one over REST</a>, or start <code>monitor simulate</code>.</p>`}
    <div class="scroll"><table class="fleet">
      <thead><tr>${Object.entries(COLUMNS).map(
        ([
          name,
          { title, text },
        ]) => html`<th scope="col" class=${text ? "text" : ""} aria-sort=${view.sort === name ? (view.down ? "descending" : "ascending") : null}>
        <button type="button" onClick=${() => change({ sort: name, down: view.sort === name && !view.down })}>${title}${view.sort === name ? (view.down ? " ▾" : " ▴") : ""}</button></th>`,
      )}</tr></thead>
      <tbody>${rows.slice(0, drawn).map((row, place) => html`<${Row} key=${row.key} row=${row} at=${place === at} />`)}</tbody>
    </table></div>
    ${all.length > 0 && rows.length === 0 && html`<p class="soft">No model fits. <button type="button" onClick=${() => change({ text: "", state: "" })}>Show all</button></p>`}
    <p class="soft"><small>Evidence that predictions are wrong, as a power of ten; the dashed line is where the budget of false alarms lets an alert fire. Keys: / search, j and k move, Enter opens.</small></p>`;
}

show("", Fleet);
