/* A report, a comparison, a refit or a simulation in one file: what is said, tables and figures. */

import { Figure } from "page/figures.js";
import { Table } from "page/table.js";
import { html, render } from "page/vendor/preact.js";
import { sentence } from "page/words.js";

const WIDE = 7; // columns from which a table takes the whole width

/** @param {{ section: any, beside?: boolean }} props  beside: what stands before it leaves it half of the width */
function Section({ section, beside = false }) {
  const { title, before, table, after } = section;
  return html`<section class=${!beside && table?.columns.length >= WIDE ? "card wide" : "card"}><h2><bdi>${title}</bdi></h2>
    ${before.map((/** @type {string} */ line) => html`<p><bdi>${line}</bdi></p>`)}
    ${table?.rows.length > 0 && html`<${Table} ...${table} title=${title} />`}
    ${after.map((/** @type {string} */ line) => html`<p class="soft"><bdi>${line}</bdi></p>`)}</section>`;
}

/** @param {{ report: any }} props */
function Report({ report }) {
  const { title, made, lead, cautions, sections, figures, reading, terms, notes } = report;
  const [first, ...others] = sections;
  const [main, ...more] = figures;
  return html`<main class="report">
    <h1><bdi>${title}</bdi></h1>
    <p class="soft"><small>${made}</small></p>
    ${lead.text && html`<p class=${`lead ${lead.tone}`}><bdi>${lead.text}</bdi></p>`}
    ${cautions.map((/** @type {string} */ text) => html`<p class="banner calm">Mind: <bdi>${sentence(text)}</bdi></p>`)}
    <div class="grid">
      ${main && html`<${Figure} figure=${main} />`}${first && html`<${Section} section=${first} beside=${main && !main.wide} />`}
      ${others.map((/** @type {any} */ section) => html`<${Section} section=${section} />`)}
      ${more.map((/** @type {any} */ figure) => html`<${Figure} figure=${figure} />`)}
      <section class="card"><h2>How to read it</h2><p>${reading}</p>
        ${terms.map((/** @type {[string, string]} */ [name, help]) => html`<p><strong>${name}</strong>: ${sentence(help)}</p>`)}
        ${notes.map((/** @type {string} */ note) => html`<p class="soft">Note: <bdi>${sentence(note)}</bdi></p>`)}</section>
    </div></main>`;
}

const text = document.getElementById("document")?.textContent ?? "";
render(html`<${Report} report=${JSON.parse(text)} />`, document.body);
