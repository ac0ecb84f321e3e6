/* For whom a model is wrong: the segments and classes of a version, now and over time. */

import { withQuery } from "page/api.js";
import { iso, PATH } from "page/model_view.js";
import { Numbers, Time } from "page/parts.js";
import { HeatRow } from "page/plots/heat.js";
import { Problem, useAnswer } from "page/ui.js";
import { html, useState } from "page/vendor/preact.js";
import { count, number, percent, timeText } from "page/words.js";

const MINUTE_MS = 60_000;
const STEPS = [1, 5, 15, 60, 180, 360, 720, 1440, 10080];
const MOST_VALUES = 5_000;
const MOST_STEPS = 120;
const FIRST = 6; // segments that are shown at first

/** The shortest step with which a heat map is not too fine. @param {number} span in milliseconds @param {number} segments */
function stepOf(span, segments) {
  const most = Math.min(MOST_STEPS, Math.floor(MOST_VALUES / Math.max(segments, 1)));
  return STEPS.find((minutes) => span / (minutes * MINUTE_MS) <= most) ?? 10_080;
}

/** @param {(any | null)[]} values */
const last = (values) => values.findLast((value) => value !== null) ?? null;

/** The segments, those that are wrong first. @param {any[]} segments */
function ranked(segments) {
  const rows = segments.map((of) => ({ ...of, now: { n: last(of.n), gap: last(of.gap), value: last(of.value), q: last(of.q_value) } }));
  return rows.toSorted(
    (one, other) =>
      Number(other.segment === "all") - Number(one.segment === "all") ||
      (one.now.q ?? 2) - (other.now.q ?? 2) ||
      Math.abs(other.now.gap ?? 0) - Math.abs(one.now.gap ?? 0),
  );
}

/** The segments to blame, by evidence. @param {{ segments: any[] }} props of an alert's document */
function Blamed({ segments }) {
  const fitted = (/** @type {any} */ one, /** @type {string} */ name) =>
    one[name] === undefined || one[name] === null
      ? "–"
      : `${number(one[name])} (${one[`${name}_interval`]?.map((/** @type {number} */ end) => number(end)).join(" to ") ?? "–"})`;
  return html`<section><h3>Whom the alert is about</h3>
    <div class="scroll"><table><thead><tr><th scope="col" class="text">Segment</th><th scope="col">Evidence</th><th scope="col">Labelled</th><th scope="col">Predicted</th><th scope="col">Came true</th><th scope="col">Offset</th><th scope="col">Slope</th></tr></thead>
    <tbody>${segments.map((one) => html`<tr><th scope="row" class="text"><bdi>${one.segment}</bdi></th><td>10<sup>${number(one.log10_evidence, 2)}</sup></td><td>${count(one.labelled)}</td><td>${percent(one.mean_prediction)}</td><td>${percent(one.prevalence)}</td><td>${fitted(one, "offset")}</td><td>${fitted(one, "slope")}</td></tr>`)}</tbody></table></div></section>`;
}

/**
 * @param {{ measures: Map<string, any>, version: string, window: string, count: number, range: [number, number], marks: { at: number }[], blamed: any[], onPick: (segment: string) => void }} props
 */
export function Segments({ measures, version, window, count: total, range, marks, blamed, onPick }) {
  const [all, setAll] = useState(false);
  const step = stepOf(range[1] - range[0], total);
  const { data, failure } = useAnswer(
    withQuery(`${PATH}/segments`, { version, window, step: `${step}m`, from: iso(range[0]), to: iso(range[1]) }),
    60,
  );
  if (!data) return html`<${Problem} failure=${failure} />`;
  const starts = data.steps.map(Date.parse);
  const rows = ranked(data.segments);
  if (!rows.length && !blamed.length) return null;
  const title = measures.get(data.measure)?.title ?? data.measure;
  const shown = all ? rows : rows.slice(0, FIRST);
  return html`<section class="card wide"><h2>For whom</h2>
    ${blamed.length > 0 && html`<${Blamed} segments=${blamed} />`}
    <p class="soft full"><small>Blocks that hang from the top: predictions were too high; blocks on the ground: too low. The stronger, the further beyond chance; a thin line is within chance. Segments with q below 5% are wrong, but for 1 in 20 of them.</small></p>
    <div class="scroll"><table class="segments"><thead><tr><th scope="col" class="text">Segment</th><th scope="col">n</th><th scope="col">Predicted less came true</th><th scope="col">${title}</th><th scope="col" title="Of all segments with a q of at most this, that share is named wrongly">q</th>
      <th scope="col" class="text over">${html`<${Time} at=${iso(range[0])} />`}<span class="right"><${Time} at=${iso(range[1])} /></span></th></tr></thead>
    <tbody>${shown.map(
      (
        of,
      ) => html`<tr key=${of.segment}><th scope="row" class="text"><button type="button" class="link" onClick=${() => onPick(of.segment)}><bdi>${of.segment === "all" ? "the whole model" : of.segment}</bdi></button></th>
      <td>${count(of.now.n)}</td><td>${of.now.gap === null ? "–" : `${percent(Math.abs(of.now.gap))} too ${of.now.gap > 0 ? "high" : "low"}`}</td><td>${number(of.now.value)}</td><td>${of.now.q !== null && of.now.q < 0.05 ? html`<strong>${number(of.now.q, 2)}</strong>` : number(of.now.q, 2)}</td>
      <td class="over"><${HeatRow} name=${of.segment} starts=${starts} step=${step * MINUTE_MS} gap=${of.gap} value=${of.value} chance=${of.null_q95} q=${of.q_value} range=${range} marks=${marks} /></td></tr>`,
    )}</tbody></table></div>
    ${rows.length > FIRST && html`<button type="button" onClick=${() => setAll(!all)}>${all ? "Fewer" : `All ${rows.length}`}</button>`}
    <${Numbers} title="segments over time" plot=${false} heads=${["At", "segment", "n", "predicted less came true", title, "q"]}
      rows=${() => data.segments.flatMap((/** @type {any} */ of) => starts.map((/** @type {number} */ start, /** @type {number} */ at) => [{ text: timeText(start), exact: iso(start) }, of.segment, count(of.n[at]), number(of.gap[at]), number(of.value[at]), number(of.q_value[at])]).filter((/** @type {any[]} */ row) => row[2] !== "–"))} />
  </section>`;
}
