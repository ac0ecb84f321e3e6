/* What the diagrams of probabilities share: the axis, ticks, paths, columns. */

/** @typedef {[number, number]} Point */

export const SIZE = 320; // of the square of a diagram
export const LEFT = 42;
export const STRIP = 44; // height of what is drawn below it, on the same axis
export const WIDTH = LEFT + SIZE + 14;

/** @param {number} p */
export const logit = (p) => Math.log(Math.max(p, 1e-12) / Math.max(1 - p, 1e-12));

/** Where a probability is on an axis, from 0 at its left end to 1. @param {any} of as `/diagrams` answers @param {string} axis */
export function scaleOf(of, axis) {
  const { from, to } = of[axis];
  const place = axis === "logit" ? logit : (/** @type {number} */ p) => p;
  return (/** @type {number} */ p) => Math.max(0, Math.min(1, (place(p) - from) / (to - from)));
}

const DECADES = [1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1];
const MOST_TICKS = 7;

/** Probabilities that are worth a label: as many as there is room for. @param {any} of @param {string} axis @returns {number[]} */
export function ticksOf(of, axis) {
  if (axis === "probability") return [0, 0.2, 0.4, 0.6, 0.8, 1];
  const { from, to } = of.logit;
  let ticks = /** @type {number[]} */ ([]);
  for (const steps of [[1, 2, 5], [1, 3], [1]]) {
    const below = DECADES.flatMap((decade) => steps.map((step) => Number((step * decade).toPrecision(1)))).filter((p) => p < 0.5);
    const above = below.toReversed().map((p) => Number((1 - p).toFixed(8)));
    ticks = [...below, 0.5, ...above].filter((p) => logit(p) >= from && logit(p) <= to);
    if (ticks.length <= MOST_TICKS) break;
  }
  return ticks;
}

/** The rows of columns; what is no column is left out. @param {Record<string, any>} columns @returns {any[]} */
export function rowsOf(columns) {
  const of = Object.entries(columns).filter(([, values]) => Array.isArray(values));
  return of[0][1].map((/** @type {any} */ _, /** @type {number} */ at) =>
    Object.fromEntries(of.map(([name, values]) => [name, values[at]])),
  );
}

/** @param {Point[]} points */
export const pathOf = (points) => points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

/** A bar from the middle of a strip, up or down. @param {number} value -1 to 1 @param {number} middle */
export const barOf = (value, middle) => ({
  y: value > 0 ? middle - (value * STRIP) / 2 : middle,
  height: Math.max((Math.abs(value) * STRIP) / 2, value ? 0.5 : 0),
});
