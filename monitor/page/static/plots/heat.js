/* A row of a heat map over time: where predictions of one segment were too high or too low, and by how much more than chance. */

import { html } from "page/vendor/preact.js";

const WIDTH = 600;
const HEIGHT = 18;
const LONGEST = 4; // steps that a value holds where there is none
const LEVELS = [1, 2, 4]; // times the level of chance

/**
 * @param {{ starts: number[], step: number, gap: (number | null)[], value: (number | null)[], chance: (number | null)[], q: (number | null)[],
 *   range: [number, number], marks: { at: number }[], name: string }} props
 *   starts and step in milliseconds; a cell is shown as wrong where q is below 5%
 */
export function HeatRow({ starts, step, gap, value, chance, q, range, marks, name }) {
  const x = (/** @type {number} */ at) => ((at - range[0]) / (range[1] - range[0])) * WIDTH;
  /** @type {Record<string, string>} */
  const cells = {};
  let wrong = 0;
  starts.forEach((start, at) => {
    if (value[at] === null || start + step < range[0] || start > range[1]) return;
    const off = q[at] !== null && /** @type {number} */ (q[at]) < 0.05;
    const ratio = /** @type {number} */ (value[at]) / Math.max(chance[at] ?? Number.POSITIVE_INFINITY, 1e-9);
    const high = (gap[at] ?? 0) > 0;
    const kind = off ? `${high ? "high" : "low"} level${LEVELS.filter((level) => ratio >= level).length || 1}` : "calm";
    if (off) wrong += 1;
    // Too high hangs from the top, too low stands on the ground: colour alone says nothing.
    const [top, height] = off ? [high ? 0 : HEIGHT / 3, (2 * HEIGHT) / 3] : [HEIGHT / 2 - 1, 2];
    // Windows end when they are evaluated: a value holds until the next, though not for long.
    const end = start + Math.min((starts[at + 1] ?? start + step) - start, LONGEST * step);
    const left = Math.max(x(start), 0);
    cells[kind] =
      `${cells[kind] ?? ""}M${left.toFixed(1)} ${top}H${Math.min(Math.max(x(end), left + 1.2), WIDTH).toFixed(1)}v${height}H${left.toFixed(1)}z`;
  });
  return html`<svg class="heat" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label=${`${name}: significantly wrong in ${wrong} of ${starts.length} steps`}>
    <rect width=${WIDTH} height=${HEIGHT} />
    ${Object.entries(cells).map(([kind, path]) => html`<path class=${kind} d=${path} />`)}
    ${marks.filter(({ at }) => at >= range[0] && at <= range[1]).map(({ at }) => html`<line x1=${x(at)} x2=${x(at)} y1="0" y2=${HEIGHT} />`)}
  </svg>`;
}
