/* Evidence of one version over some days, in a line of text's height. */

import { toneOf } from "page/ui.js";
import { html } from "page/vendor/preact.js";

const WIDTH = 168;
const HEIGHT = 28;
const LEAST = -1; // log10 below which evidence says nothing

/**
 * @param {{ points: [number, number][], from: number, to: number, line: number, tone: string }} props
 *   points: [milliseconds, log10 of the evidence], ascending
 */
export function Sparkline({ points, from, to, line, tone }) {
  if (!points || points.length === 0) return html`<span class="soft">–</span>`;
  const top = Math.max(line * 1.15, ...points.map(([, value]) => value));
  const x = (/** @type {number} */ ms) => ((ms - from) / (to - from || 1)) * WIDTH;
  const y = (/** @type {number} */ value) => HEIGHT - 1 - ((Math.max(value, LEAST) - LEAST) / (top - LEAST)) * (HEIGHT - 2);
  const path = points.map(([ms, value], at) => `${at ? "L" : "M"}${x(ms).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const last = points[points.length - 1];
  return html`<svg class=${`spark ${toneOf(tone)}`} width=${WIDTH} height=${HEIGHT} viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img"
      aria-label="evidence 10 to the ${last[1].toFixed(1)}, alert at ${line.toFixed(1)}">
    <path class="line" d="M0 ${y(line).toFixed(1)}H${WIDTH}" />
    <path class="data" d=${path} />
    <circle class="dot" cx=${x(last[0])} cy=${y(last[1])} r="2.2" />
  </svg>`;
}
