/* Where a model is wrong: how many more came true than were predicted, by prediction, and the ranges that smCE's witness names. */

import { Numbers } from "page/parts.js";
import { barOf, LEFT, pathOf, SIZE, STRIP, scaleOf, ticksOf, WIDTH } from "page/plots/svg.js";
import { html } from "page/vendor/preact.js";
import { count, number, percent } from "page/words.js";

const TOP = 18;
const GAP = 26;

/** The ranges in which predictions are too low or too high. @param {{ places: any[] }} props */
export function Places({ places }) {
  if (places.length === 0) return html`<p class="soft">In no range of predictions is the difference more than chance explains.</p>`;
  return html`<ul>${places.map((place) => html`<li>From ${percent(place.from)} to ${percent(place.to)}: <strong>${place.rate > place.prediction ? "too low" : "too high"}</strong>, ${percent(place.prediction)} predicted and ${percent(place.rate)} came true${place.share !== null && html` <small>(${percent(place.share)} of the error)</small>`}.</li>`)}</ul>`;
}

/**
 * Where predictions are too low or too high.
 * @param {{ data: any }} props `diagrams` of `GET /v1/models/{model}/diagrams`
 */
export function Witness({ data }) {
  const { axis, curve, places } = data;
  const { columns } = data[axis];
  const scale = scaleOf(data, axis);
  const x = (/** @type {number} */ p) => LEFT + scale(p) * SIZE;
  const most = Math.max(
    1e-9,
    ...columns.surplus.map((/** @type {number | null} */ value) => Math.abs(value ?? 0)),
    ...columns.chance.map((/** @type {number | null} */ value) => value ?? 0),
  );
  const width = SIZE / columns.surplus.length;
  const middle = TOP + STRIP;
  const edge = (/** @type {number} */ sign) =>
    columns.chance.map((/** @type {number | null} */ value, /** @type {number} */ at) => [
      LEFT + (at + 0.5) * width,
      middle - (sign * (value ?? 0) * STRIP) / most,
    ]);
  const shown = curve.prediction.flatMap((/** @type {number} */ p, /** @type {number} */ at) =>
    curve.witness[at] === null ? [] : [[p, curve.witness[at]]],
  );
  const steepest = Math.max(1e-9, ...shown.map((/** @type {number[]} */ [, value]) => Math.abs(value)));
  const line = middle + STRIP + GAP + STRIP / 2;
  const bottom = line + STRIP / 2;
  return html`<figure>
    <svg viewBox="0 0 ${WIDTH} ${bottom + 20}" width="100%" class="diagram" role="img" aria-label="More outcomes than predicted (above the line) or fewer, and the witness of smCE; the numbers are below">
      ${ticksOf(data, axis).map((tick) => html`<line class="rule" x1=${x(tick)} x2=${x(tick)} y1=${TOP} y2=${bottom} /><text x=${x(tick)} y=${bottom + 14} text-anchor="middle">${tick}</text>`)}
      <text x=${LEFT} y=${TOP - 6}>More came true than predicted, or fewer (to ±${number(most, 2)})</text>
      <path class="band" d="${pathOf([...edge(1), ...edge(-1).reverse()])}Z" />
      ${columns.surplus.map((/** @type {number | null} */ value, /** @type {number} */ at) => {
        const { y, height } = barOf((2 * (value ?? 0)) / most, middle);
        const off = Math.abs(value ?? 0) > (columns.chance[at] ?? 0);
        return html`<rect class=${off ? "bar off" : "bar"} x=${LEFT + at * width + 0.5} width=${width - 1} y=${y} height=${height} />`;
      })}
      <line class="axis" x1=${LEFT} x2=${LEFT + SIZE} y1=${middle} y2=${middle} />
      <text x=${LEFT} y=${line - STRIP / 2 - 6}>Where the model is too low (▲) or too high (▼)</text>
      <path class="data" d=${pathOf(shown.map((/** @type {number[]} */ [p, value]) => [x(p), line - (value * STRIP) / 2 / steepest]))} />
      <line class="axis" x1=${LEFT} x2=${LEFT + SIZE} y1=${line} y2=${line} />
    </svg>
    <${Places} places=${places} />
    <figcaption>By chance one bar in twenty is beyond the shaded band.</figcaption>
    <${Numbers} title="where it is wrong" heads=${["column", "positives", "negatives", "beyond predicted", "chance"]}
      rows=${() => columns.surplus.map((/** @type {number | null} */ value, /** @type {number} */ at) => [at + 1, count(columns.positives[at]), count(columns.negatives[at]), number(value), number(columns.chance[at])])} />
  </figure>`;
}
