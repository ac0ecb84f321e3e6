/* How often predictions came true: bins with their consistency band, the CORP curve, the density, the test of each bin. */

import { Numbers } from "page/ui.js";
import { html, useState } from "page/vendor/preact.js";
import { count, number } from "page/words.js";

const SIZE = 320;
const LEFT = 40;
const BOTTOM = 34;
const DENSITY = 56;
const LOGITS = 7; // the most that the logit axis shows, on either side

/** @param {number} p */
const logit = (p) => Math.max(-LOGITS, Math.min(LOGITS, Math.log(p / (1 - p))));

const TICKS = { probability: [0, 0.2, 0.4, 0.6, 0.8, 1], logit: [0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999] };

/**
 * @typedef {{ mean_prediction: number, rate: number, n: number, positives: number, lower?: number | null, upper?: number | null, refuted?: boolean }} Bin
 * @typedef {{ p: number, rate: number }} Point
 * @param {{ title: string, bins: Bin[], curve?: Point[], density?: { p: number, n: number }[] }} props
 *   lower, upper: where the rate of a calibrated model lies in 95 of 100 cases
 */
export function Reliability({ title, bins, curve = [], density = [] }) {
  const [axis, setAxis] = useState(/** @type {"probability" | "logit"} */ ("probability"));
  const [shown, setShown] = useState(/** @type {Bin | null} */ (null));
  const scale = (/** @type {number} */ p) => (axis === "logit" ? (logit(p) + LOGITS) / (2 * LOGITS) : p);
  const x = (/** @type {number} */ p) => LEFT + scale(p) * SIZE;
  const y = (/** @type {number} */ p) => SIZE + 8 - scale(p) * SIZE;
  const path = (/** @type {[number, number][]} */ points) =>
    points.map(([a, b], at) => `${at ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
  const banded = bins.filter((bin) => bin.lower !== null && bin.lower !== undefined);
  const band = [
    ...banded.map((bin) => /** @type {[number, number]} */ ([bin.mean_prediction, bin.upper])),
    ...banded.toReversed().map((bin) => /** @type {[number, number]} */ ([bin.mean_prediction, bin.lower])),
  ];
  const most = Math.max(1, ...density.map(({ n }) => n));
  const base = SIZE + 8 + BOTTOM + DENSITY;
  const stair = curve.flatMap(
    ({ p, rate }, at) =>
      /** @type {[number, number][]} */ (
        at
          ? [
              [p, curve[at - 1].rate],
              [p, rate],
            ]
          : [[p, rate]]
      ),
  );
  return html`<figure>
    <div class="bar"><h3>${title}</h3>
      <label class="right"><small>Axes <select value=${axis} onChange=${(/** @type {any} */ event) => setAxis(event.target.value)}><option value="probability">probability</option><option value="logit">log odds</option></select></small></label></div>
    <svg viewBox="0 0 ${SIZE + LEFT + 12} ${base + 4}" width="100%" style=${{ maxWidth: "460px" }} role="img" aria-label=${`${title}: the share that came true, by prediction; the numbers are below`}>
      ${TICKS[axis].map(
        (tick) => html`<g>
        <line class="rule" x1=${x(tick)} x2=${x(tick)} y1="8" y2=${SIZE + 8} /><line class="rule" x1=${LEFT} x2=${LEFT + SIZE} y1=${y(tick)} y2=${y(tick)} />
        <text x=${x(tick)} y=${SIZE + 22} text-anchor="middle">${tick}</text><text x=${LEFT - 5} y=${y(tick) + 4} text-anchor="end">${tick}</text></g>`,
      )}
      ${band.length > 0 && html`<path class="band" d="${path(band)}Z" />`}
      <line class="axis" x1=${x(0)} y1=${y(0)} x2=${x(1)} y2=${y(1)} />
      ${stair.length > 0 && html`<path class="data" d=${path(stair)} />`}
      ${bins.map(
        (
          bin,
        ) => html`<circle class=${bin.refuted ? "dot off" : "dot"} cx=${x(bin.mean_prediction)} cy=${y(bin.rate)} r=${bin === shown ? 6 : 4}
        tabindex="0" aria-label=${told(bin)} onMouseEnter=${() => setShown(bin)} onFocus=${() => setShown(bin)} onMouseLeave=${() => setShown(null)} onBlur=${() => setShown(null)} />`,
      )}
      ${density.map(({ p, n }, at) => html`<rect class="bar" x=${x(p)} width=${Math.max(x(density[at + 1]?.p ?? 1) - x(p) - 0.5, 0.8)} y=${base - (n / most) * DENSITY} height=${(n / most) * DENSITY} />`)}
    </svg>
    <figcaption aria-live="polite">${shown ? told(shown) : "Dots: share that came true among similar predictions; red where a test refutes them. Shaded: where a calibrated model's would be."}</figcaption>
    <${Numbers} title=${title} heads=${["predicted", "came true", "n", "positives", "if calibrated"]}
      rows=${() => bins.map((bin) => [number(bin.mean_prediction), number(bin.rate), count(bin.n), count(bin.positives), bin.lower === null || bin.lower === undefined ? "–" : `${number(bin.lower)} to ${number(bin.upper)}`])} />
  </figure>`;
}

/** @param {Bin} bin */
const told = (bin) =>
  `predicted ${number(bin.mean_prediction)}, came true ${number(bin.rate)} (${count(bin.positives)} of ${count(bin.n)})${bin.refuted ? ", refuted" : ""}`;
