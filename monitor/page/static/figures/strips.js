/* Rows of numbers with their intervals drawn beside them: differences, segments before and after, false alarms. */

import { FIGURES } from "page/figures.js";
import { Table } from "page/table.js";
import { html } from "page/vendor/preact.js";

const WIDTH = 240;
const HEIGHT = 22;
const EDGE = 8;

/**
 * @typedef {{ cells: string[], tone: string, value: number | null, lower?: number | null, upper?: number | null,
 *   hollow?: number | null, other?: number | null, chance?: number | null }} Row
 *   a dot, the ends of its interval, a hollow dot (before), a diamond (what serves), and how far chance goes
 */

/** The ends of an axis of values. @param {Row[]} rows @param {number | null} line @param {boolean} around @returns {[number, number]} */
function ends(rows, line, around) {
  const values = rows.flatMap(({ value, lower, upper, hollow, other, chance }) => [value, lower, upper, hollow, other, chance, line]);
  const known = values.filter((value) => typeof value === "number" && Number.isFinite(value)).map(Number);
  const most = Math.max(1e-12, ...known.map((value) => (around ? Math.abs(value) : value)));
  return around ? [-most, most] : [Math.min(0, ...known), most];
}

/** @param {{ row: Row, range: [number, number], line: number | null }} props */
function Strip({ row, range: [from, to], line }) {
  const x = (/** @type {number} */ value) => EDGE + ((value - from) / (to - from)) * (WIDTH - 2 * EDGE);
  const middle = HEIGHT / 2;
  const known = (/** @type {number | null | undefined} */ value) => value !== null && value !== undefined;
  const { value, lower, upper, hollow, other, chance } = row;
  const from_ = hollow ?? lower;
  const to_ = hollow === undefined ? upper : value;
  return html`<svg class=${`strip ${row.tone}`} width=${WIDTH} height=${HEIGHT} viewBox="0 0 ${WIDTH} ${HEIGHT}" aria-hidden="true">
    ${known(chance) && html`<rect class="band" x=${x(0)} width=${x(Number(chance)) - x(0)} y="3" height=${HEIGHT - 6} />`}
    ${line !== null && html`<line class="axis" x1=${x(line)} x2=${x(line)} y1="0" y2=${HEIGHT} />`}
    ${known(from_) && known(to_) && html`<line class="data" x1=${x(Number(from_))} x2=${x(Number(to_))} y1=${middle} y2=${middle} />`}
    ${known(other) && html`<path class="other" d=${`M${x(Number(other))} ${middle - 5}l5 5l-5 5l-5 -5z`} />`}
    ${known(hollow) && html`<circle class="hollow" cx=${x(Number(hollow))} cy=${middle} r="4.5" />`}
    ${known(value) && html`<circle class="dot" cx=${x(Number(value))} cy=${middle} r="4.5" />`}
  </svg>`;
}

/**
 * @param {{ title: string, columns: any[], rows: Row[], drawn: string, own?: boolean, line?: number }} props
 *   drawn: heading of what is drawn; own: each row has a scale of its own about `line`
 */
function Strips({ title, columns, rows, drawn, own = false, line }) {
  const at = line ?? null;
  const shared = ends(rows, at, false);
  const cells = rows.map((row) => [
    ...row.cells.map((text) => ({ text })),
    { text: "", shown: html`<${Strip} row=${row} range=${own ? ends([row], at, true) : shared} line=${at} />` },
  ]);
  return html`<${Table} title=${title} columns=${[...columns, { heading: drawn, words: true }]} rows=${cells} />`;
}

FIGURES.strips = Strips;
