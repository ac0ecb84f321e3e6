/* What is shown, as files: the numbers of a table as CSV, a plot as PNG. */

import { html } from "page/vendor/preact.js";

/** A cell of a table: what is shown, or that and what a file has in its place. @typedef {string | number | { text: string | number, exact: string | number }} Cell */

const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "text-anchor"];
const MARGIN = 12;
const LINE = 22; // the height of a line of text
const SCALE = 2; // for print and screens with small pixels

/** A number without its thousands' commas, nothing in place of a dash; other texts in quotes where they need them. @param {Cell} cell */
function field(cell) {
  const text = String(typeof cell === "object" ? cell.exact : cell).trim();
  if (text === "–") return "";
  if (/^[-+]?\d{1,3}(,\d{3})+(\.\d+)?$/.test(text)) return text.replaceAll(",", "");
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** As RFC 4180 has it. @param {string[]} heads @param {Cell[][]} rows */
export const csvOf = (heads, rows) => [heads, ...rows].map((row) => `${row.map(field).join(",")}\r\n`).join("");

/** Let the browser save a file. @param {string} title @param {string} ending @param {Blob} content */
function save(title, ending, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  const name = `${document.title.split(" · ")[0]} ${title}`.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 100);
  link.download = `${name.replace(/^-|-$/g, "")}.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** @param {string} title @param {string[]} heads @param {Cell[][]} rows */
const saveCsv = (title, heads, rows) => save(title, "csv", new Blob([csvOf(heads, rows)], { type: "text/csv" }));

/** An SVG as a picture, with the styles that the page gives it. @param {SVGSVGElement} svg @returns {Promise<HTMLImageElement>} */
function pictureOf(svg) {
  const copy = /** @type {SVGSVGElement} */ (svg.cloneNode(true));
  const copies = copy.querySelectorAll("*");
  svg.querySelectorAll("*").forEach((element, at) => {
    const style = getComputedStyle(element);
    for (const name of STYLES) copies[at].setAttribute(name, style.getPropertyValue(name));
  });
  const { width, height } = svg.getBoundingClientRect();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(width * SCALE));
  copy.setAttribute("height", String(height * SCALE));
  return new Promise((done, failed) => {
    const image = new Image();
    image.onload = () => done(image);
    image.onerror = () => failed(new Error("the browser cannot draw this plot as a picture"));
    image.src = `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  });
}

/** Lines of a plot and their colours, which stand beside its canvas. @param {HTMLElement} figure @returns {[string, string][]} */
const legendOf = (figure) =>
  [...figure.querySelectorAll(".u-legend .u-series:not(:first-child, .edge)")].flatMap((series) => {
    const marker = series.querySelector(".u-marker");
    return marker ? [[series.querySelector(".u-label")?.textContent ?? "", getComputedStyle(marker).borderTopColor]] : [];
  });

/** @param {HTMLElement} figure @param {string} title */
async function savePng(figure, title) {
  const plot = /** @type {HTMLCanvasElement | SVGSVGElement} */ (figure.querySelector("canvas, svg"));
  const drawn = plot instanceof SVGSVGElement ? await pictureOf(plot) : plot;
  const { width, height } = plot.getBoundingClientRect();
  const legend = legendOf(figure);
  const canvas = document.createElement("canvas");
  canvas.width = (width + 2 * MARGIN) * SCALE;
  canvas.height = (height + 2 * MARGIN + LINE * (1 + Math.min(legend.length, 1))) * SCALE;
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const colour = (/** @type {string} */ name) => getComputedStyle(document.documentElement).getPropertyValue(name);
  pen.scale(SCALE, SCALE);
  pen.fillStyle = colour("--paper");
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.font = "13px system-ui, sans-serif";
  pen.fillStyle = colour("--ink");
  pen.fillText(title, MARGIN, MARGIN + 10, width);
  pen.drawImage(drawn, MARGIN, MARGIN + LINE, width, height);
  let left = MARGIN;
  const bottom = MARGIN + LINE + height + 14;
  for (const [name, line] of legend) {
    pen.fillStyle = line;
    pen.fillRect(left, bottom - 9, 9, 9);
    pen.fillStyle = colour("--soft");
    pen.fillText(name, left + 14, bottom);
    left += 28 + pen.measureText(name).width;
  }
  canvas.toBlob((content) => content && save(title, "png", content), "image/png");
}

/** Buttons of a figure that save its numbers and its plot. @param {{ title: string, heads: string[], rows: () => Cell[][], plot?: boolean }} props */
export function Exports({ title, heads, rows, plot = true }) {
  return html`<span class="exports"><button type="button" aria-label=${`CSV: ${title}`} onClick=${() => saveCsv(title, heads, rows())}>CSV</button>
    ${plot && html`<button type="button" aria-label=${`PNG: ${title}`} onClick=${(/** @type {any} */ event) => savePng(event.target.closest("figure"), title)}>PNG</button>`}</span>`;
}

/** What a cell of a table says: without signs, times in UTC, powers of ten on one line. @param {HTMLTableCellElement} cell */
function textOf(cell) {
  const copy = /** @type {HTMLElement} */ (cell.cloneNode(true));
  for (const sign of copy.querySelectorAll("[aria-hidden]")) sign.remove();
  for (const time of copy.querySelectorAll("time")) time.textContent = time.dateTime;
  for (const exponent of copy.querySelectorAll("sup")) exponent.prepend("^");
  return (copy.textContent ?? "").replace(/\s+/g, " ");
}

/** A button that saves the table of its part of the page. @param {{ title: string, within?: string }} props */
export function TableExport({ title, within = "section" }) {
  const press = (/** @type {any} */ event) => {
    const table = event.target.closest(within).querySelector("table");
    const [head, ...rows] = [...table.rows].map((row) => [...row.cells].map(textOf));
    saveCsv(title, head, rows);
  };
  return html`<span class="exports right"><button type="button" aria-label=${`CSV: ${title}`} onClick=${press}>CSV</button></span>`;
}
