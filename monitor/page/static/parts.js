/* Small parts that pages and files are made of: states, times, powers of ten, numbers behind plots. They ask for nothing. */

import { Exports } from "page/export.js";
import { html, useState } from "page/vendor/preact.js";
import { ago, eventsNow, eventsTime, number, timeText, utcTime } from "page/words.js";

/** A state -> its tone, its sign (colour alone says nothing), its word. @type {Record<string, [string, string, string]>} */
const STATES = {
  firing: ["bad", "▲", "firing"],
  acknowledged: ["seen", "◆", "acknowledged"],
  pending: ["warn", "◐", "pending"],
  resolved: ["good", "✓", "resolved"],
  quiet: ["good", "✓", "nothing found"],
  insufficient: ["", "…", "not enough data"],
  waiting: ["", "…", "no events yet"],
  stale: ["warn", "○", "stale"],
  failed: ["bad", "✕", "failed"],
  queued: ["", "…", "queued"],
  running: ["warn", "◐", "running"],
  candidate: ["warn", "◇", "candidate"],
  champion: ["good", "✓", "serves"],
  retired: ["", "·", "retired"],
  rejected: ["bad", "✕", "rejected"],
  rolled_back: ["", "↩", "rolled back"],
};

/** @param {{ state: string }} props */
export function State({ state }) {
  const [tone, sign, word] = STATES[state] ?? ["", "·", state];
  return html`<span class=${`pill ${tone}`}><span aria-hidden="true">${sign}</span>${word}</span>`;
}

/** @param {string} state */
export const wordOf = (state) => (STATES[state] ?? ["", "", state])[2];

/** @param {string} state */
export const toneOf = (state) => (STATES[state] ?? [""])[0];

/** An age by the clock of what it is of. @param {string} at @param {string | undefined} of "events", which may be simulated, or the service */
export const ageOf = (at, of) => (of === "events" ? ago(at, eventsNow()) : ago(at));

/**
 * A time in the zone that is chosen, with UTC on hover.
 * @param {{ at: string | null, relative?: boolean | "events" }} props relative: its age, by the clock of the service or of events
 */
export function Time({ at, relative = false }) {
  if (!at) return html`–`;
  return html`<time datetime=${at} title=${utcTime(at)} data-ago=${relative || null}>${relative ? ageOf(at, String(relative)) : timeText(at)}</time>`;
}

/**
 * When something happened in the service: in a simulation, at that time of its events, among which it is shown.
 * @param {{ at: string | null, relative?: boolean }} props relative: its age
 */
export const ServiceTime = ({ at, relative = false }) =>
  html`<${Time} at=${at && new Date(eventsTime(Date.parse(at))).toISOString()} relative=${relative && "events"} />`;

/** Evidence as a power of ten. @param {{ log10: number }} props */
export const Power = ({ log10 }) => html`<span>10<sup>${log10.toFixed(1)}</sup></span>`;

/**
 * Where evidence stands beside the line at which an alert fires, as sentences of the service say it; as powers of ten on hover.
 * @param {{ log10: number, line: number }} props
 */
export function PastLine({ log10, line }) {
  const beyond = log10 - line;
  const times = beyond < 6 ? `${number(10 ** beyond, 2)} x` : "more than 1,000,000 x";
  const part = beyond > -1 ? `${number(100 * 10 ** beyond, 2)}% of` : beyond < -4 ? "far below" : `1/${number(10 ** -beyond, 2)} of`;
  return html`<span title=${`evidence 10^${log10.toFixed(1)}, the alert line is 10^${line.toFixed(1)}`}>${beyond < 0 ? part : times} the alert line</span>`;
}

/** Numbers behind a plot; the rows are made when somebody looks. @param {{ title: string, named?: boolean, plot?: boolean, heads: string[], rows: () => import("page/export.js").Cell[][] }} props named: there are others beside them; plot: there is one to be saved */
export function Numbers({ title, named = false, plot = !named, heads, rows }) {
  const [open, setOpen] = useState(false);
  return html`<div class="numbers"><details class="data" onToggle=${(/** @type {any} */ event) => setOpen(event.target.open)}>
    <summary>Numbers<span class=${named ? null : "unseen"}>: ${title}</span></summary>
    ${
      open &&
      html`<div class="scroll" tabindex="0" role="region" aria-label=${title}><table>
      <thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
      <tbody>${rows().map((row) => html`<tr>${row.map((cell) => html`<td>${typeof cell === "object" ? cell.text : cell}</td>`)}</tr>`)}</tbody>
    </table></div>`
    }
  </details><${Exports} title=${title} heads=${heads} rows=${rows} plot=${plot} /></div>`;
}

/** Let the keyboard scroll what is larger than its place, and nothing else. Call it once. */
export function watchScrollers() {
  const sized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const place = /** @type {HTMLElement} */ (target.closest(".scroll"));
      if (!place) continue;
      if (place.scrollWidth > place.clientWidth || place.scrollHeight > place.clientHeight) {
        place.tabIndex = 0;
        place.role = "group";
        place.ariaLabel ??= place.closest("section")?.querySelector("h2, h3")?.textContent ?? "Table";
      } else for (const name of ["tabindex", "role"]) place.removeAttribute(name);
    }
  });
  const found = () => {
    for (const part of document.querySelectorAll(".scroll, .scroll > *")) sized.observe(part);
  };
  new MutationObserver(found).observe(document.body, { childList: true, subtree: true });
}
