/* Evidence of one version over some days, in a line of text's height. */

import { toneOf } from "page/parts.js";
import { html } from "page/vendor/preact.js";

const WIDTH = 168;
const HEIGHT = 28;
const LEAST = -3; // factors of ten below the line: what is less speaks for nothing

/**
 * @param {{ past: (number | null)[] | undefined, state: string }} props
 *   past: by how many factors of ten evidence was above the line at which an alert fires, at equal steps; null: there was none
 */
export function Sparkline({ past, state }) {
  if (!past?.some((value) => value !== null)) return html`<span class="soft">–</span>`;
  const top = Math.max(1, ...past.map((value) => value ?? LEAST));
  const x = (/** @type {number} */ at) => 2 + (at / Math.max(past.length - 1, 1)) * (WIDTH - 5);
  const y = (/** @type {number} */ value) => HEIGHT - 2 - ((Math.max(value, LEAST) - LEAST) / (top - LEAST)) * (HEIGHT - 4);
  // A line over the gaps: evidence stands still while nothing of a model is settled, as of one that predicts once a day.
  const known = past.flatMap((value, at) => (value === null ? [] : [`${x(at).toFixed(1)} ${y(value).toFixed(1)}`]));
  const last = past.findLastIndex((value) => value !== null);
  const value = /** @type {number} */ (past[last]);
  const told = value >= 0 ? "at or above its line" : `a factor of 10 to the ${(-value).toFixed(1)} below its line`;
  return html`<svg class=${`spark ${toneOf(state)}`} width=${WIDTH} height=${HEIGHT} viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label=${`evidence is ${told}`}>
    <path class="line" d="M0 ${y(0).toFixed(1)}H${WIDTH}" />
    <path class="data" d="M${known.join("L")}" />
    <circle class="dot" cx=${x(last)} cy=${y(value)} r="2.2" />
  </svg>`;
}
