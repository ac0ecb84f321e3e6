/* Tables whose rows a reader can sort. */

import { Exports } from "page/export.js";
import { html, useState } from "page/vendor/preact.js";

/** Nothing to compare by, last of all. */
const NOTHING = /^[-–]?$/;

/** The number that a text begins with, such as "< 0.001", "1,234" or "12 %". @param {string} text */
const numberIn = (text) => Number.parseFloat(text.replace(/^[<>≤≥~]\s*/, "").replaceAll(",", ""));

/** @param {string} one @param {string} other */
function compare(one, other) {
  const [first, second] = [numberIn(one), numberIn(other)];
  return Number.isNaN(first) || Number.isNaN(second) ? one.localeCompare(other) : first - second;
}

/** @typedef {{ text: string, tone?: string, below?: string, note?: string, shown?: any }} Cell  `shown` in place of the text */

/**
 * @param {{ columns: { heading: string, words?: boolean }[], rows: Cell[][], caption?: string, title: string }} props
 *   words are on the left, numbers on the right
 */
export function Table({ columns, rows, caption, title }) {
  const [order, setOrder] = useState({ column: -1, down: false });
  const side = (/** @type {number} */ at) => (columns[at].words || at === 0 ? "text" : "");
  const sorted = order.column < 0 ? rows : rows.toSorted(byColumn(order.column, order.down));
  const sort = (/** @type {number} */ column) => setOrder({ column, down: order.column === column && !order.down });
  const arrow = (/** @type {number} */ at) => (order.column === at ? (order.down ? " ↓" : " ↑") : "");
  const state = (/** @type {number} */ at) => (order.column === at ? (order.down ? "descending" : "ascending") : null);
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${title}><table>
    ${caption && html`<caption>${caption}</caption>`}
    <thead><tr>${columns.map(({ heading }, at) => html`<th scope="col" class=${side(at)} aria-sort=${state(at)}><button type="button" onClick=${() => sort(at)}>${heading}${arrow(at)}</button></th>`)}</tr></thead>
    <tbody>${sorted.map((row) => html`<tr>${row.map((cell, at) => html`<td class=${`${side(at)} ${cell.tone ?? ""}`}>${cell.shown ?? html`<bdi>${cell.text}</bdi>`}${cell.note && html`<small>${cell.note}</small>`}${cell.below && html`<br /><small>${cell.below}</small>`}</td>`)}</tr>`)}</tbody>
  </table></div><div class="numbers"><${Exports} title=${title} heads=${columns.map(({ heading }) => heading)} rows=${() => sorted.map((row) => row.map(inFile))} plot=${false} /></div>`;
}

/** A cell as a file has it: with what stands below and beside it. @param {Cell} cell */
const inFile = ({ text, note, below }) => [text, note, below].filter(Boolean).join(" ");

/** @param {number} column @param {boolean} down @returns {(one: Cell[], other: Cell[]) => number} */
function byColumn(column, down) {
  return (one, other) => {
    const [first, second] = [one[column].text, other[column].text];
    if (NOTHING.test(first) || NOTHING.test(second)) return Number(NOTHING.test(first)) - Number(NOTHING.test(second));
    return down ? compare(second, first) : compare(first, second);
  };
}
