/* The versions of a model side by side: evidence over time, and the same window of each. */

import { withQuery } from "page/api.js";
import { TableExport } from "page/export.js";
import { PATH } from "page/model_view.js";
import { State } from "page/parts.js";
import { TimePlot } from "page/plots/time.js";
import { useAnswer } from "page/ui.js";
import { html, useMemo } from "page/vendor/preact.js";
import { certain, count, interval, number, percent } from "page/words.js";

/** @typedef {import("page/plots/time.js").Shared} Shared */

const MOST = 4; // lines that a plot tells apart
const FLOOR = -3;

/** By how many factors of ten the strongest detector was above its line, at each time. @param {any} history */
function aboveLine(history) {
  const detectors = Object.values(history.detectors);
  return history.to.map((/** @type {string} */ _, /** @type {number} */ at) =>
    Math.max(FLOOR, ...detectors.map((of) => (of.log10_line[at] === null ? FLOOR : (of.log10_evidence[at] ?? FLOOR) - of.log10_line[at]))),
  );
}

/** One line for each version on common times. @param {any[]} versions */
function linesOf(versions) {
  const times = [...new Set(versions.flatMap((one) => one.history.to))].sort();
  const place = new Map(times.map((time, at) => [time, at]));
  const lines = versions.map((one) => {
    const values = /** @type {(number | null)[]} */ (times.map(() => null));
    const above = aboveLine(one.history);
    one.history.to.forEach((/** @type {string} */ time, /** @type {number} */ at) => {
      values[/** @type {number} */ (place.get(time))] = above[at];
    });
    return { name: `version ${one.version}`, values };
  });
  return {
    times: times.map((time) => Date.parse(time)),
    lines: [...lines, { name: "an alert fires", values: times.map(() => 0), level: true }],
  };
}

/** One version in the same window. @param {{ of: any, window: string, segment: string, current: boolean, onPick: (version: string) => void }} props */
function Row({ of, window, segment, current, onPick }) {
  const { data, failure } = useAnswer(
    withQuery(`${PATH}/report`, { version: of.version, window, segment: of.segments.includes(segment) ? segment : "all" }),
    60,
  );
  const smce = data?.measures.smce;
  const [offset, slope] = [data?.diagnosis?.offset, data?.diagnosis?.slope];
  return html`<tr class=${current ? "at" : ""}><th scope="row" class="text"><button type="button" class="link" aria-current=${current ? "true" : null} onClick=${() => onPick(of.version)}><bdi>${of.version}</bdi></button></th>
    <td class="text"><${State} state=${of.evidence.state === "waiting" ? "insufficient" : of.evidence.state} /></td>
    ${
      failure || !data
        ? html`<td class="text" colspan="6">${failure?.detail ?? "…"}</td>`
        : html`<td>${count(data.n)}</td><td>${percent(data.mean_prediction)}</td><td>${percent(data.prevalence)}</td>
    <td>${smce ? html`${certain(smce.value, smce.lower, smce.upper)} <small>${interval(smce.lower, smce.upper)}</small>` : "–"}</td><td>${number(offset, 2)}</td><td>${number(slope, 2)}</td>`
    }</tr>`;
}

/** @param {{ versions: any[], version: string, evidence: any[], window: string, segment: string, shared: Shared, onPick: (version: string) => void }} props */
export function Versions({ versions, version, evidence, window, segment, shared, onPick }) {
  const past = evidence.filter((one) => one.history?.to.length);
  // The one that is shown and the newest others.
  const shown = [...past.filter((one) => one.version === version), ...past.filter((one) => one.version !== version).reverse()].slice(
    0,
    MOST,
  );
  const { times, lines } = useMemo(() => linesOf(shown), [evidence, version]);
  return html`<section class="card wide"><${TableExport} title="versions" within="section" /><h2>Versions</h2>
    ${shown.length > 0 && html`<${TimePlot} title="Evidence of each version over its line, in factors of ten (0: an alert fires)" times=${times} lines=${lines} shared=${shared} least=${FLOOR} most=${1} whole />`}
    <div class="scroll"><table><thead><tr><th scope="col" class="text">Version</th><th scope="col" class="text">State</th><th scope="col">n</th><th scope="col">Predicted</th><th scope="col">Came true</th><th scope="col">smCE</th><th scope="col">Offset</th><th scope="col">Slope</th></tr></thead>
    <tbody>${versions.map((of) => html`<${Row} key=${of.version} of=${of} window=${window} segment=${segment} current=${of.version === version} onPick=${onPick} />`)}</tbody></table></div>
  </section>`;
}
