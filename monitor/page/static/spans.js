/* Spans of time side by side, such as before a change and since. */

import { TableExport } from "page/export.js";
import { Time } from "page/parts.js";
import { Reading, Reliability } from "page/plots/reliability.js";
import { logit } from "page/plots/svg.js";
import { html } from "page/vendor/preact.js";
import { certain, count, interval, percent } from "page/words.js";

const Z = 1.96;
const RARE = 0.1; // where most predictions are below, or above the rest, log odds show them better
const EDGE = 0.5; // of an axis of log odds, beyond what it shows

/**
 * A span of time. @typedef {{ name: string, from: string, to: string, n: number, prevalence: number | null, predicted: number | null,
 *   offset: (number | null)[], slope: (number | null)[], diagrams: any }} Span  offset and slope with the ends of their intervals
 */

/** A span as `GET /v1/models/{model}/diagrams` answers. @param {string} name @param {any} of @returns {Span} */
export function measured(name, of) {
  const fit = of.diagrams?.fit ?? {};
  const reach = Z * fit.offset_error;
  const known = fit.offset !== null && fit.offset_error !== null && of.diagrams;
  const bins = of.diagrams?.probability.bins;
  const sum = bins?.n.reduce(
    (/** @type {number} */ total, /** @type {number} */ n, /** @type {number} */ at) => total + n * bins.prediction[at],
    0,
  );
  return {
    name,
    ...of,
    prevalence: of.n ? of.positives / of.n : null,
    predicted: of.n ? sum / of.n : null,
    offset: known ? [fit.offset, fit.offset - reach, fit.offset + reach] : [null, null, null],
    slope: [fit.slope ?? null, fit.slope_lower ?? null, fit.slope_upper ?? null],
  };
}

/** A span as an alert has it, which stays when its predictions are not kept any more. @param {string} name @param {any} of @returns {Span} */
export function reported(name, of) {
  return {
    name,
    from: of.from,
    to: of.to,
    n: of.labelled,
    prevalence: of.prevalence,
    predicted: of.mean_prediction,
    offset: [of.offset, ...(of.offset_interval ?? [null, null])],
    slope: [of.slope, ...(of.slope_interval ?? [null, null])],
    diagrams: of.bins && diagramsOf(of),
  };
}

/** Bins of an alert as `GET /v1/models/{model}/diagrams` has them. @param {any} of */
function diagramsOf({ bins: of, mean_prediction: mean }) {
  const column = (/** @type {(bin: any) => number} */ value) => of.map(value);
  const bins = {
    n: column((bin) => bin.labelled),
    positives: column((bin) => bin.positives),
    prediction: column((bin) => bin.prediction_sum / bin.labelled),
    rate: column((bin) => bin.positives / bin.labelled),
  };
  const probability = { from: 0, to: 1, bins };
  if (mean >= RARE && mean <= 1 - RARE) return { axis: "probability", probability };
  const places = [...bins.prediction, ...bins.rate].filter((p) => p > 0 && p < 1).map(logit);
  return { axis: "logit", probability, logit: { from: Math.min(...places) - EDGE, to: Math.max(...places) + EDGE, bins } };
}

/** Diagrams and numbers of spans of time, side by side; children: what is said below the numbers. @param {{ spans: Span[], children?: any }} props */
export function SideBySide({ spans, children }) {
  const row = (/** @type {string} */ title, /** @type {(span: Span) => any} */ cell) =>
    html`<tr><th scope="row" class="text">${title}</th>${spans.map((span) => html`<td>${cell(span)}</td>`)}</tr>`;
  const fitted =
    (/** @type {"offset" | "slope"} */ name, signed = false) =>
    (/** @type {Span} */ span) => {
      const [value, lower, upper] = span[name];
      const ends = interval(lower, upper);
      return html`${certain(value, lower, upper, signed)} ${ends && html`<small>(${ends})</small>`}`;
    };
  const drawn = spans.findLast((span) => span.diagrams);
  return html`<div class="pair">${spans.map((span) => span.diagrams && html`<${Reliability} key=${span.name} title=${span.name} data=${span.diagrams} small />`)}
    <div><div class="scroll"><table><thead><tr><td></td>${spans.map(({ name }) => html`<th scope="col">${name}</th>`)}</tr></thead><tbody>
    ${row("from", (span) => html`<${Time} at=${span.from} />`)}
    ${row("to", (span) => html`<${Time} at=${span.to} />`)}
    ${row("labelled predictions", (span) => count(span.n))}
    ${row("came true", (span) => percent(span.prevalence))}
    ${row("predicted on average", (span) => percent(span.predicted))}
    ${row("prior: offset (0 is right)", fitted("offset", true))}
    ${row("shape: slope (1 is right)", fitted("slope"))}
  </tbody></table></div><${TableExport} title="before and since" within="div" />${children}
    ${drawn && html`<p class="soft"><small><${Reading} data=${drawn.diagrams} /> An offset above 0: predictions are too low; a slope below 1: too sure of themselves.</small></p>`}</div></div>`;
}
