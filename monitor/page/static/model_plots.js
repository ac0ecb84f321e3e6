/* What the page of a model shows over time: evidence, prior and shape, measures. */

import { LOW, TimePlot } from "page/plots/time.js";
import { html, useMemo } from "page/vendor/preact.js";
import { number, percent } from "page/words.js";

/** @typedef {import("page/plots/time.js").Shared} Shared */

const FLOOR = -1; // evidence below a tenth speaks for nothing
const Z = 1.96;

/** A detector -> what it finds. @type {Record<string, string>} */
export const DETECTORS = {
  calibration: "predictions are wrong",
  calibration_even: "predictions are wrong (even periods)",
  calibration_odd: "predictions are wrong (odd periods)",
  prevalence: "too high and low in parts",
  change: "outcomes have changed",
  serving_map: "the map does harm",
};

/** @param {number | null} value */
const power = (value) => (value === null || value === undefined ? "–" : `10^${number(value, 3)}`);

/** Such as 10². @param {number} value */
const powerTick = (value) => `10${[...String(value)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)] ?? "⁻").join("")}`;

/** When an alert fired: spans of the history of evidence. @param {any} past @returns {import("page/plots/time.js").Shade[]} */
function firing(past) {
  const detectors = /** @type {any[]} */ (Object.values(past.detectors));
  const spans = /** @type {import("page/plots/time.js").Shade[]} */ ([]);
  past.to.forEach((/** @type {string} */ to, /** @type {number} */ at) => {
    if (!detectors.some((of) => of.firing[at])) return;
    const last = spans.at(-1);
    if (last && last.to === Date.parse(past.to[at - 1])) last.to = Date.parse(to);
    else spans.push({ from: Date.parse(to), to: Date.parse(to), tone: "bad" });
  });
  return spans;
}

/** The evidence of each detector. @param {{ evidence: any, shared: Shared }} props one version of `GET /v1/models/{model}/evidence` */
export function EvidencePlot({ evidence, shared }) {
  const { times, lines, fires } = useMemo(() => {
    const past = evidence.history;
    const named = Object.entries(past.detectors);
    return {
      times: past.to.map(Date.parse),
      lines: [
        ...named.map(([name, of]) => ({
          name: DETECTORS[name] ?? name,
          values: of.log10_evidence.map((/** @type {number | null} */ value) => Math.max(value ?? FLOOR, FLOOR)),
        })),
        { name: "an alert fires", values: named[0]?.[1].log10_line ?? [], level: true },
      ],
      fires: firing(past),
    };
  }, [evidence]);
  const shades = useMemo(() => [...fires, ...(shared.shades ?? [])], [fires, shared.shades]);
  // A fault swings outcomes together, too, for as long as it is looked back at: advice to raise the tolerance would silence the alert on it.
  const isFiring = fires.length > 0 || evidence.detectors.some((/** @type {any} */ of) => of.alarm);
  const shock = isFiring || evidence.shock?.covered ? "" : (evidence.shock?.sentence ?? "");
  return html`<section class="card most"><h2 class="unseen">Evidence</h2>
    <${TimePlot} title="Evidence of each detector, and the line at which an alert fires" times=${times} lines=${lines} shared=${{ ...shared, shades }} least=${FLOOR} most=${2} whole written=${power} ticks=${powerTick} height=${LOW} />
    <p class="soft full"><small>${shades.length > 0 && 'Shaded at "change": when it may have come; since "alert": the alert is firing, and evidence stays at the most there was. '}${evidence.resting ?? ""} ${shock}</small></p>
  </section>`;
}

/** @param {any[]} points @param {string} key */
const column = (points, key) => points.map((point) => point[key]);

/** Is it the prior or the shape? @param {{ points: any[], shared: Shared }} props points of `GET /v1/models/{model}/history` */
export function PriorAndShape({ points, shared }) {
  const { times, rates, offset, slope } = useMemo(() => {
    const zero = points.map(() => 0);
    const reach = (/** @type {number} */ sign) =>
      points.map((point) => (point.offset === null || point.offset_error === null ? null : point.offset + sign * Z * point.offset_error));
    return {
      times: points.map((point) => Date.parse(point.to)),
      rates: [
        { name: "came true", values: column(points, "prevalence") },
        { name: "predicted on average", values: column(points, "mean_prediction") },
      ],
      offset: [
        { name: "to add to every logit", values: column(points, "offset"), lower: reach(-1), upper: reach(1) },
        { name: "calibrated", values: zero, level: true },
      ],
      slope: [
        { name: "slope", values: column(points, "slope"), lower: column(points, "slope_lower"), upper: column(points, "slope_upper") },
        { name: "calibrated", values: zero.map(() => 1), level: true },
      ],
    };
  }, [points]);
  return html`<section class="card"><${TimePlot} title="What was predicted, and what came true" times=${times} lines=${rates} shared=${shared} written=${percent} height=${LOW} />
      <p class="soft"><small>Drag to look closer; click for the window that ended there.</small></p></section>
    <section class="card"><${TimePlot} title="Prior: the offset of the logits (0 is right, above 0 is too low)" times=${times} lines=${offset} shared=${shared} least=${-0.1} most=${0.1} height=${LOW} /></section>
    <section class="card"><${TimePlot} title="Shape: the slope (1 is right, below 1 is too sure)" times=${times} lines=${slope} shared=${shared} least=${0.9} most=${1.1} height=${LOW} /></section>`;
}

/** One measure, with its interval and its level if calibrated. @param {{ name: string, title: string, help?: string, points: any[], shared: Shared }} props */
export function MeasurePlot({ name, title, help, points, shared }) {
  const { times, lines } = useMemo(() => {
    const of = points.map((point) => point.measures[name] ?? {});
    const part = (/** @type {string} */ key) => of.map((one) => one[key] ?? null);
    return {
      times: points.map((point) => Date.parse(point.to)),
      lines: [
        { name: title, values: part("value"), lower: part("lower"), upper: part("upper") },
        { name: "95 of 100 calibrated models are below", values: part("null_q95"), level: true },
      ],
    };
  }, [points]);
  return html`<section class="card"><${TimePlot} title=${title} times=${times} lines=${lines} shared=${shared} least=${0} height=${LOW} />${help && html`<small class="soft">${help}</small>`}</section>`;
}
