/* Evidence of one version over some days, in a line of text's height. */

import { toneOf } from "page/parts.js";
import { html } from "page/vendor/preact.js";

const WIDTH = 168;
const HEIGHT = 28;
const LEAST = -3; // factors of ten below the line: what is less speaks for nothing

/**
 * @param {{ past: (number | null)[] | null, state: string, evidence: number | null, line: number | null }} props
 *   past: by how many factors of ten evidence was above the line at which an alert fires, at equal steps; null: there was none;
 *   evidence, line: powers of ten, now
 */
export function Sparkline({ past, state, evidence, line }) {
  const now =
    evidence === null || line === null ? "no evidence yet" : `evidence 10^${evidence.toFixed(1)}, the alert line is 10^${line.toFixed(1)}`;
  const last = past?.findLastIndex((value) => value !== null) ?? -1;
  if (!past || last < 0)
    return html`<span class="soft" title=${now}>${evidence === null ? "–" : html`10<sup>${evidence.toFixed(1)}</sup>`}</span>`;
  const top = Math.max(1, ...past.map((value) => value ?? LEAST));
  // A single value is of now, at the right.
  const x = (/** @type {number} */ at) => (2 + (past.length > 1 ? at / (past.length - 1) : 1) * (WIDTH - 5)).toFixed(1);
  const y = (/** @type {number} */ value) => (HEIGHT - 3 - ((Math.max(value, LEAST) - LEAST) / (top - LEAST)) * (HEIGHT - 6)).toFixed(1);
  // A line over the gaps: evidence stands still while nothing of a model is settled, as of one that predicts once a day.
  const known = past.flatMap((value, at) => (value === null ? [] : [`${x(at)} ${y(value)}`]));
  return html`<svg class=${`spark ${toneOf(state)}`} width=${WIDTH} height=${HEIGHT} viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label=${now}>
    <title>${now}</title>
    <path class="line" d="M0 ${y(0)}H${WIDTH}" />
    <path class="data" d="M${known.join("L")}" />
    <circle class="dot" cx=${x(last)} cy=${y(/** @type {number} */ (past[last]))} r="2.2" />
  </svg>`;
}
