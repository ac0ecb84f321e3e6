/* How often predictions came true: bins, the CORP curve and its band, how many predictions there are, and what the exact test says. */

import { Numbers } from "page/parts.js";
import { LEFT, pathOf, rowsOf, SIZE, STRIP, scaleOf, ticksOf, WIDTH } from "page/plots/svg.js";
import { html, useState } from "page/vendor/preact.js";
import { count, number, percent } from "page/words.js";

const TOP = 8;
const GAP = 20;
const NARROW = 5; // half of the width that a curve of one point has, in pixels

/** A probability with the digits by which it differs from 0 and 1. @param {number} p */
const chance = (p) => (p > 0.99 && p < 1 ? String(Number(p.toFixed(Math.min(8, 2 - Math.floor(Math.log10(1 - p)))))) : number(p));

/** @param {any} bin */
const isOff = (bin) => bin.chance_lower !== undefined && (bin.rate < bin.chance_lower || bin.rate > bin.chance_upper);

/** @param {any} bin */
function told(bin) {
  const verdict =
    bin.chance_lower === undefined
      ? ""
      : isOff(bin)
        ? `, more than chance explains (${chance(bin.chance_lower)} to ${chance(bin.chance_upper)})`
        : ", as chance explains";
  return `Predicted ${chance(bin.prediction)}, came true ${chance(bin.rate)} (${count(bin.positives)} of ${count(bin.n)})${verdict}.`;
}

/** What the title says: the bin that adds most to the error, where smCE is beyond chance. @param {any[]} rows @param {any} smce */
function finding(rows, smce) {
  if (typeof smce?.null_q95 !== "number") return "";
  if (smce.value <= smce.null_q95) return ": no difference beyond chance can be seen (by smCE)";
  const error = (/** @type {any} */ bin) => Math.abs(bin.n * (bin.rate - bin.prediction));
  const worst = rows.reduce((largest, bin) => (error(bin) > error(largest) ? bin : largest));
  return `; the largest gap: about ${percent(worst.prediction)} predicted, ${percent(worst.rate)} came true`;
}

/** @param {any} bin of the test */
function judged(bin) {
  const range = `Predictions from ${chance(bin.from)} to ${chance(bin.to)}: ${count(bin.positives)} of ${count(bin.n)} came true. The exact test refutes`;
  if (bin.too_low + bin.too_high === 0) return `${range} none.`;
  return `${range} ${[bin.too_low && `${count(bin.too_low)} as too low`, bin.too_high && `${count(bin.too_high)} as too high`].filter(Boolean).join(", ")}.`;
}

/** How many predictions each column holds. @param {{ columns: any, top: number }} props */
function Density({ columns, top }) {
  const total = columns.positives.map((/** @type {number} */ value, /** @type {number} */ at) => value + columns.negatives[at]);
  const most = Math.max(1, ...total);
  const width = SIZE / total.length;
  const bar = (/** @type {number} */ value, /** @type {number} */ at, /** @type {string} */ kind) =>
    html`<rect class=${kind} x=${LEFT + at * width + 0.5} width=${Math.max(width - 1, 0.5)} y=${top + STRIP * (1 - value / most)} height=${(STRIP * value) / most} />`;
  return html`<g role="img" aria-label="How many predictions there are, and how many came true">
    <text x=${LEFT} y=${top - 5}>Predictions, up to ${count(most)}; stronger: came true</text>
    ${total.map((/** @type {number} */ value, /** @type {number} */ at) => bar(value, at, "bar"))}
    ${columns.positives.map((/** @type {number} */ value, /** @type {number} */ at) => bar(value, at, "bar second"))}
    <line class="axis" x1=${LEFT} x2=${LEFT + SIZE} y1=${top + STRIP} y2=${top + STRIP} />
  </g>`;
}

/** The verdict of the exact test on each of its bins. @param {{ test: any, x: (p: number) => number, top: number, show: (text: string | null) => void }} props */
function Verdicts({ test, x, top, show }) {
  const middle = top + STRIP / 2;
  return html`<g role="group" aria-label="What the exact test refutes in each of its bins">
    <text x=${LEFT} y=${top - 5}>Predictions that cannot be right: ▲ too low, ▼ too high</text>
    ${rowsOf(test).map((bin) => {
      const [left, width] = [x(bin.from), Math.max(x(bin.to) - x(bin.from) - 1, 0.5)];
      const [low, high] = [(bin.too_low / bin.n) * (STRIP / 2), (bin.too_high / bin.n) * (STRIP / 2)];
      return html`<g onMouseEnter=${() => show(judged(bin))} onMouseLeave=${() => show(null)}>
        <rect class="bin" x=${left} width=${width} y=${top} height=${STRIP} />
        ${low > 0 && html`<rect class="bar off" x=${left} width=${width} y=${middle - low} height=${low} />`}
        ${high > 0 && html`<rect class="bar off" x=${left} width=${width} y=${middle} height=${high} />`}</g>`;
    })}
    <line class="axis" x1=${LEFT} x2=${LEFT + SIZE} y1=${middle} y2=${middle} />
  </g>`;
}

/**
 * A reliability diagram.
 * @param {{ title: string, data: any, small?: boolean, level?: number | null, smce?: any }} props
 *   smce: of the report, which decides whether the title names a fault; level: percentage of its predictions that the exact test refutes of 5 in 100 calibrated models; data: `diagrams` of `GET /v1/models/{model}/diagrams`; without `curve`, `columns` and `test` there are bins alone
 */
export function Reliability({ title, data, small = false, level = null, smce = null }) {
  const [chosen, setAxis] = useState(/** @type {string | null} */ (null));
  const [shown, show] = useState(/** @type {string | null} */ (null));
  const axis = data[chosen ?? data.axis] ? (chosen ?? data.axis) : "probability";
  const scale = scaleOf(data, axis);
  const x = (/** @type {number} */ p) => LEFT + scale(p) * SIZE;
  const y = (/** @type {number} */ p) => TOP + SIZE - scale(p) * SIZE;
  const { bins, columns } = data[axis];
  const { curve, test } = data;
  const at = (/** @type {number[]} */ rates) => {
    const points = curve.prediction.map((/** @type {number} */ p, /** @type {number} */ place) => [x(p), y(rates[place])]);
    const [[left, height]] = points;
    return points.length > 1
      ? points
      : [
          [left - NARROW, height],
          [left + NARROW, height],
        ];
  };
  const rows = rowsOf(bins);
  const strips = TOP + SIZE + 24 + GAP;
  const height = strips - GAP + (columns && !small ? STRIP + GAP : 0) + (test && !small ? STRIP + GAP : 0);
  const hover = (/** @type {any} */ bin) => ({
    tabindex: 0,
    role: "img",
    "aria-label": told(bin),
    onMouseEnter: () => show(told(bin)),
    onFocus: () => show(told(bin)),
    onMouseLeave: () => show(null),
    onBlur: () => show(null),
  });
  return html`<figure class="reliability">
    <div class="bar"><h3>${title}${finding(rows, smce)}</h3>
      ${data.logit && html`<label class="right"><small>Axes${" "}<select value=${axis} onChange=${(/** @type {any} */ event) => setAxis(event.target.value)}><option value="probability">probability</option><option value="logit">log odds</option></select></small></label>`}</div>
    <svg viewBox="0 0 ${WIDTH} ${height}" width="100%" class="diagram" role="group" aria-label=${`${title}: the share that came true, by prediction; the numbers are below`}>
      ${ticksOf(data, axis).map(
        (tick) => html`<g aria-hidden="true">
        <line class="rule" x1=${x(tick)} x2=${x(tick)} y1=${TOP} y2=${TOP + SIZE} /><line class="rule" x1=${LEFT} x2=${LEFT + SIZE} y1=${y(tick)} y2=${y(tick)} />
        <text x=${x(tick)} y=${TOP + SIZE + 14} text-anchor="middle">${tick}</text><text x=${LEFT - 5} y=${y(tick) + 4} text-anchor="end">${tick}</text></g>`,
      )}
      <text x=${LEFT + 5} y=${TOP + 11}>↑ came true</text><text x=${LEFT + SIZE - 5} y=${TOP + SIZE - 6} text-anchor="end">predicted →</text>
      ${curve && html`<path class="band" d="${pathOf([...at(curve.chance_upper), ...at(curve.chance_lower).reverse()])}Z" />`}
      <line class="axis" x1=${LEFT} y1=${TOP + SIZE} x2=${LEFT + SIZE} y2=${TOP} />
      ${curve && html`<path class="data" d=${pathOf(at(curve.rate))} />`}
      ${rows.map(
        (
          bin,
        ) => html`<line class="interval" x1=${x(bin.prediction)} x2=${x(bin.prediction)} y1=${y(bin.lower ?? bin.rate)} y2=${y(bin.upper ?? bin.rate)} />
        ${
          isOff(bin)
            ? html`<rect class="dot off" x=${x(bin.prediction) - 4} y=${y(bin.rate) - 4} width="8" height="8" transform="rotate(45 ${x(bin.prediction)} ${y(bin.rate)})" ...${hover(bin)} />`
            : html`<circle class="dot" cx=${x(bin.prediction)} cy=${y(bin.rate)} r="4" ...${hover(bin)} />`
        }`,
      )}
      ${columns && !small && html`<${Density} columns=${columns} top=${strips} />`}
      ${test && !small && html`<${Verdicts} test=${test} x=${x} top=${strips + (columns ? STRIP + GAP : 0)} show=${show} />`}
    </svg>
    <figcaption aria-live="polite">${shown ?? (small ? "" : html`<${Reading} data=${data} />`)}</figcaption>
    ${test && !small && html`<p class="soft"><small>${tested(test, level)}</small></p>`}
    <${Numbers} title=${title} heads=${["predicted", "came true", "95% interval", "n", "positives", "if calibrated"]}
      rows=${() => rows.map((bin) => [chance(bin.prediction), chance(bin.rate), bin.lower === undefined ? "–" : `${chance(bin.lower)} to ${chance(bin.upper)}`, count(bin.n), count(bin.positives), bin.chance_lower === undefined ? "–" : `${chance(bin.chance_lower)} to ${chance(bin.chance_upper)}`])} />
    ${
      test &&
      !small &&
      html`<${Numbers} title="the exact test" named heads=${["from", "to", "n", "positives", "too low", "too high"]}
      rows=${() => rowsOf(test).map((bin) => [chance(bin.from), chance(bin.to), ...[bin.n, bin.positives, bin.too_low, bin.too_high].map(count)])} />`
    }
  </figure>`;
}

/** How to read a diagram. @param {{ data: any }} props as of {@link Reliability} */
export function Reading({ data }) {
  const hasIntervals = rowsOf(data[data.axis].bins).some((bin) => bin.lower !== undefined && bin.lower !== null);
  return html`Points: the share that came true among similar predictions${hasIntervals ? ", with its 95% interval; diamonds differ by more than chance explains." : "."}${data.curve ? " Line: how often it came true. Inside the grey band the difference may be chance." : ""}`;
}

/** What the exact test of the bins finds. @param {any} test @param {number | null} level what may be chance, in percent */
function tested(test, level) {
  const sum = (/** @type {number[]} */ values) => values.reduce((one, other) => one + other, 0);
  const [n, low, high] = [sum(test.n), sum(test.too_low), sum(test.too_high)];
  if (low + high === 0) return `The exact test refutes none of ${count(n)} predictions.`;
  return `The exact test refutes ${percent((low + high) / n)} of the predictions: ${percent(low / n)} are too low, ${percent(high / n)} too high.${level === null ? "" : ` Up to ${number(level)}% may be chance.`}`;
}
