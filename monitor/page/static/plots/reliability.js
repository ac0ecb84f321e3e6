/* How often predictions came true: bins, the CORP curve and its band, how many predictions there are, what the test says, and where it is wrong. */

import { Numbers } from "page/parts.js";
import { html, useState } from "page/vendor/preact.js";
import { count, number, percent } from "page/words.js";

const SIZE = 320;
const LEFT = 42;
const TOP = 8;
const STRIP = 48; // height of what is drawn below the diagram
const WIDTH = LEFT + SIZE + 12;

/** @type {Record<string, number[]>} */
const TICKS = {
  probability: [0, 0.2, 0.4, 0.6, 0.8, 1],
  logit: [0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999],
};

/** @param {number} p */
const logit = (p) => Math.log(Math.max(p, 1e-12) / Math.max(1 - p, 1e-12));

/** The places of the axis between its two ends, 0 to 1. @param {any} data @param {string} axis */
function scaleOf(data, axis) {
  const { from, to } = data[axis];
  const place = axis === "logit" ? logit : (/** @type {number} */ p) => p;
  return (/** @type {number} */ p) => Math.max(0, Math.min(1, (place(p) - from) / (to - from)));
}

/** The rows of columns. @param {Record<string, any[]>} columns @returns {any[]} */
const rowsOf = (columns) =>
  Object.values(columns)[0].map((_, at) => Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, values[at]])));

/** @param {[number, number][]} points */
const path = (points) => points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

/** @param {any} bin */
const told = (bin) => `predicted ${number(bin.prediction)}, came true ${number(bin.rate)} (${count(bin.positives)} of ${count(bin.n)})`;

/** Bars around a middle line, one for each column. @param {{ values: number[], chance: number[] | null, top: number, name: string }} props */
function Surplus({ values, chance, top, name }) {
  const most = Math.max(1e-9, ...values.map(Math.abs), ...(chance ?? [0]));
  const width = SIZE / values.length;
  const middle = top + STRIP / 2;
  const height = (/** @type {number} */ value) => (value / most) * (STRIP / 2);
  return html`<g role="img" aria-label=${name}>
    ${chance && html`<path class="band" d=${path([...chance.map((value, at) => /** @type {[number, number]} */ ([LEFT + (at + 0.5) * width, middle - height(value)])), ...chance.map((value, at) => /** @type {[number, number]} */ ([LEFT + (at + 0.5) * width, middle + height(value)])).reverse()])} />`}
    ${values.map((value, at) => html`<rect class=${chance && Math.abs(value) > chance[at] ? "bar off" : "bar"} x=${LEFT + at * width + 0.5} width=${Math.max(width - 1, 0.5)} y=${value > 0 ? middle - height(value) : middle} height=${Math.abs(height(value))} />`)}
    <line class="axis" x1=${LEFT} x2=${LEFT + SIZE} y1=${middle} y2=${middle} />
  </g>`;
}

/** How many predictions each column holds. @param {{ columns: any, top: number }} props */
function Density({ columns, top }) {
  const total = columns.positives.map((/** @type {number} */ value, /** @type {number} */ at) => value + columns.negatives[at]);
  const most = Math.max(1, ...total);
  const width = SIZE / total.length;
  const bar = (/** @type {number} */ value, /** @type {number} */ at, /** @type {string} */ kind) =>
    html`<rect class=${kind} x=${LEFT + at * width + 0.5} width=${Math.max(width - 1, 0.5)} y=${top + STRIP * (1 - value / most)} height=${(STRIP * value) / most} />`;
  return html`<g role="img" aria-label="How many predictions there are, and how many came true">
    ${total.map((/** @type {number} */ value, /** @type {number} */ at) => bar(value, at, "bar"))}
    ${columns.positives.map((/** @type {number} */ value, /** @type {number} */ at) => bar(value, at, "bar second"))}
    <line class="axis" x1=${LEFT} x2=${LEFT + SIZE} y1=${top + STRIP} y2=${top + STRIP} />
  </g>`;
}

/**
 * @param {{ title: string, data: any }} props
 *   data: as `GET /v1/models/{model}/diagrams` answers; without `curve` and `columns` there are bins alone
 */
export function Reliability({ title, data }) {
  const [axis, setAxis] = useState(data.axis);
  const [shown, setShown] = useState(/** @type {any} */ (null));
  const scale = scaleOf(data, axis);
  const x = (/** @type {number} */ p) => LEFT + scale(p) * SIZE;
  const y = (/** @type {number} */ p) => TOP + SIZE - scale(p) * SIZE;
  const { bins, columns } = data[axis];
  const { curve, test } = data;
  const at = (/** @type {number[]} */ ps, /** @type {number[]} */ rates) =>
    ps.map((p, place) => /** @type {[number, number]} */ ([x(p), y(rates[place])]));
  const rows = rowsOf(bins);
  const strips = TOP + SIZE + 28;
  const height = strips + (columns ? 2 * (STRIP + 18) : 0);
  return html`<figure>
    <div class="bar"><h3>${title}</h3>
      <label class="right"><small>Axes${" "}<select value=${axis} onChange=${(/** @type {any} */ event) => setAxis(event.target.value)}><option value="probability">probability</option>${data.logit && html`<option value="logit">log odds</option>`}</select></small></label></div>
    <svg viewBox="0 0 ${WIDTH} ${height}" width="100%" class="diagram" role="group" aria-label=${`${title}: the share that came true, by prediction; the numbers are below`}>
      ${TICKS[axis]
        .filter((tick) => axis === "probability" || (logit(tick) >= data.logit.from && logit(tick) <= data.logit.to))
        .map(
          (tick) => html`<g aria-hidden="true">
        <line class="rule" x1=${x(tick)} x2=${x(tick)} y1=${TOP} y2=${TOP + SIZE} /><line class="rule" x1=${LEFT} x2=${LEFT + SIZE} y1=${y(tick)} y2=${y(tick)} />
        <text x=${x(tick)} y=${TOP + SIZE + 14} text-anchor="middle">${tick}</text><text x=${LEFT - 5} y=${y(tick) + 4} text-anchor="end">${tick}</text></g>`,
        )}
      ${curve && html`<path class="band" d="${path([...at(curve.prediction, curve.chance_upper), ...at(curve.prediction, curve.chance_lower).reverse()])}Z" />`}
      <line class="axis" x1=${LEFT} y1=${TOP + SIZE} x2=${LEFT + SIZE} y2=${TOP} />
      ${curve && html`<path class="data" d=${path(at(curve.prediction, curve.rate))} />`}
      ${rows.map(
        (
          bin,
        ) => html`<line class="interval" x1=${x(bin.prediction)} x2=${x(bin.prediction)} y1=${y(bin.lower ?? bin.rate)} y2=${y(bin.upper ?? bin.rate)} />
        <circle class=${bin.chance_lower !== undefined && (bin.rate < bin.chance_lower || bin.rate > bin.chance_upper) ? "dot off" : "dot"} cx=${x(bin.prediction)} cy=${y(bin.rate)} r=${bin === shown ? 6 : 4}
          tabindex="0" role="img" aria-label=${told(bin)} onMouseEnter=${() => setShown(bin)} onFocus=${() => setShown(bin)} onMouseLeave=${() => setShown(null)} onBlur=${() => setShown(null)} />`,
      )}
      ${
        columns &&
        html`<text x=${LEFT} y=${strips + 2}>Predictions, and those that came true</text><${Density} columns=${columns} top=${strips + 6} />
        <text x=${LEFT} y=${strips + STRIP + 20}>More came true than predicted (above), or fewer</text><${Surplus} values=${columns.surplus} chance=${columns.chance} top=${strips + STRIP + 24} name="How many more came true than were predicted" />`
      }
    </svg>
    <figcaption aria-live="polite">${shown ? told(shown) : html`Dots: the share that came true among similar predictions, with its 95% interval; red beyond what chance shows.${curve ? " Line: the CORP curve; shaded: where 95 of 100 calibrated models are." : ""}`}</figcaption>
    ${test && html`<p class="soft"><small>${tested(test)}</small></p>`}
    <${Numbers} title=${title} heads=${["predicted", "came true", "95% interval", "n", "positives", "if calibrated"]}
      rows=${() => rows.map((bin) => [number(bin.prediction), number(bin.rate), bin.lower === undefined ? "–" : `${number(bin.lower)} to ${number(bin.upper)}`, count(bin.n), count(bin.positives), bin.chance_lower === undefined ? "–" : `${number(bin.chance_lower)} to ${number(bin.chance_upper)}`])} />
  </figure>`;
}

/** What the exact test of the bins finds. @param {any} test */
function tested(test) {
  const sum = (/** @type {number[]} */ values) => values.reduce((one, other) => one + other, 0);
  const [n, low, high] = [sum(test.n), sum(test.too_low), sum(test.too_high)];
  if (low + high === 0) return `The exact test refutes none of ${count(n)} predictions.`;
  return `The exact test refutes ${percent((low + high) / n)} of the predictions: ${percent(low / n)} are too low, ${percent(high / n)} too high.`;
}
