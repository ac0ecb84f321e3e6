/* What the page of a model shows: the part of it that the URL names, and the controls that change it. */

import { modelPath, ROOT } from "page/api.js";
import { Field } from "page/ui.js";
import { html, useEffect, useRef, useState } from "page/vendor/preact.js";
import { inputTime, timeOfInput, windowNames } from "page/words.js";

export const MODEL = decodeURIComponent(location.pathname.slice(`${new URL(ROOT).pathname}models/`.length));
export const PATH = `v1/models/${modelPath(MODEL)}`;

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** @type {Record<string, number | null>} */
const RANGES = { "6 hours": 6 * HOUR_MS, "24 hours": DAY_MS, "7 days": 7 * DAY_MS, "14 days": 14 * DAY_MS, "90 days": 90 * DAY_MS };
const USUAL = "14 days";
const CHOSEN = "as chosen";
const AS_SERVED = "served";
export const AS_MODEL = "model";

/** What is shown, as the URL says. @typedef {Record<string, string>} View */
/** @typedef {(part: Record<string, string | null>) => void} Change */

/** @returns {[View, Change]} */
export function useView() {
  const read = () => Object.fromEntries(new URLSearchParams(location.search));
  const [view, setView] = useState(read);
  const change = (/** @type {Record<string, string | null>} */ part) => {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(part)) value ? query.set(name, value) : query.delete(name);
    history.replaceState(null, "", query.size ? `?${query}` : location.pathname);
    setView(read());
  };
  return [view, change];
}

/** A time of the URL: RFC 3339, or milliseconds. @param {string | undefined} text */
export function timeOf(text) {
  const ms = text && /^\d+$/.test(text) ? Number(text) : Date.parse(text ?? "");
  return Number.isNaN(ms) ? null : ms;
}

/** @param {number} ms */
export const iso = (ms) => new Date(Math.round(ms)).toISOString();

/**
 * The range of time that is asked for, to the hour where it moves on: the question changes with it.
 * @param {View} view @param {number} settled @returns {{ from: number, to: number | null }}
 */
export function askedRange(view, settled) {
  const [from, to] = [timeOf(view.from), timeOf(view.to)];
  if (from !== null && to !== null && from < to) return { from, to };
  return { from: Math.floor((settled - (RANGES[view.range] ?? RANGES[USUAL] ?? 0)) / HOUR_MS) * HOUR_MS, to: null };
}

/** @param {{ label: string, value: number | null, onChange: (ms: number | null) => void }} props */
function Moment({ label, value, onChange }) {
  return html`<label>${label}${" "}<${Field} type="datetime-local" value=${inputTime(value ?? Number.NaN)}
    onChange=${(/** @type {string} */ at) => onChange(at ? timeOfInput(at) : null)} /></label>`;
}

/** @param {{ label: string, value: string, groups: Record<string, string[]>, names?: Record<string, string>, onChange: (value: string) => void }} props */
function Choice({ label, value, groups, names = {}, onChange }) {
  const named = Object.entries(groups).filter(([, options]) => options.length);
  if (named.flatMap(([, options]) => options).length < 2) return null;
  const items = (/** @type {string[]} */ options) =>
    options.map((option) => html`<option value=${option}>${names[option] ?? option}</option>`);
  return html`<label>${label}${" "}<select value=${value} onChange=${(/** @type {any} */ event) => onChange(event.target.value)}>
    ${named.map(([name, options]) => (name ? html`<optgroup label=${name}>${items(options)}</optgroup>` : items(options)))}</select></label>`;
}

/**
 * The pickers of version, window, segment or class, range of time and moment.
 * @param {{ view: View, change: Change, model: any, version: string, window: string, segment: string, range: [number, number], served: boolean | null }} props
 *   served: whether predictions are shown as the map that serves makes them; null where they cannot be
 */
export function Controls({ view, change, model, version, window, segment, range, served }) {
  const of = model.versions.find((/** @type {any} */ one) => one.version === version);
  const segments = /** @type {string[]} */ (of?.segments ?? []);
  const isClass = (/** @type {string} */ name) => name.startsWith("class=");
  const chosen = timeOf(view.from) !== null;
  const setRange = (/** @type {number | null} */ from, /** @type {number | null} */ to) =>
    from !== null && to !== null && from < to && change({ from: iso(from), to: iso(to) });
  return html`<div class="bar controls" role="group" aria-label="What is shown">
    <${Choice} label="Version" value=${version} groups=${{ "": model.versions.map((/** @type {any} */ one) => one.version) }} onChange=${(/** @type {string} */ value) => change({ version: value, segment: null })} />
    <${Choice} label="Window" value=${window} groups=${{ "": of?.windows ?? [] }} names=${windowNames(of?.windows ?? [])} onChange=${(/** @type {string} */ value) => change({ window: value })} />
    <${Choice} label=${segments.some(isClass) ? "Class or segment" : "Segment"} value=${segment} names=${{ all: segments.some(isClass) ? "most probable class" : "the whole model" }} onChange=${(/** @type {string} */ value) => change({ segment: value === "all" ? null : value })}
      groups=${{ "": segments.filter((name) => name === "all"), Classes: segments.filter(isClass), Segments: segments.filter((name) => name !== "all" && !isClass(name)) }} />
    ${served !== null && html`<${Choice} label="Predictions" value=${served ? AS_SERVED : AS_MODEL} names=${{ [AS_SERVED]: "as served", [AS_MODEL]: "as the model makes them" }} groups=${{ "": [AS_SERVED, AS_MODEL] }} onChange=${(/** @type {string} */ value) => change({ predictions: value === AS_MODEL ? value : null })} />`}
    <${Choice} label="Range" value=${chosen ? CHOSEN : (view.range ?? USUAL)} groups=${{ "": [...Object.keys(RANGES), ...(chosen ? [CHOSEN] : [])] }} onChange=${(/** @type {string} */ value) => value !== CHOSEN && change({ range: value, from: null, to: null })} />
    <${Moment} label="from" value=${range[0]} onChange=${(/** @type {number | null} */ ms) => setRange(ms, range[1])} />
    <${Moment} label="to" value=${range[1]} onChange=${(/** @type {number | null} */ ms) => setRange(range[0], ms)} />
    ${chosen && html`<button type="button" onClick=${() => change({ from: null, to: null })}>Whole range</button>`}
    <${Moment} label="As of" value=${timeOf(view.as_of)} onChange=${(/** @type {number | null} */ ms) => change({ as_of: ms === null ? null : iso(ms) })} />
    ${view.as_of && html`<button type="button" onClick=${() => change({ as_of: null })}>Now</button>`}
  </div>`;
}

/** A part of the page that is loaded once the reader unfolds it. @param {{ children?: any, title: string }} props */
export function Folded({ children, title }) {
  const [open, setOpen] = useState(false);
  return html`<details class="fold" onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}><summary>${title}</summary>${open && children}</details>`;
}

const SOON_MS = 2000; // by then what stands first is drawn

/**
 * What is shown, and asked for, once the reader comes near; in any case soon, so that print and the browser's search have all of it.
 * @param {{ children?: any, title: string }} props
 */
export function Later({ children, title }) {
  const place = useRef(/** @type {any} */ (null));
  const [near, setNear] = useState(false);
  useEffect(() => {
    const all = () => setNear(true);
    const soon = setTimeout(all, SOON_MS);
    const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && all(), { rootMargin: "400px" });
    observer.observe(place.current);
    return () => {
      clearTimeout(soon);
      observer.disconnect();
    };
  }, []);
  return html`<section class="later" aria-label=${title} ref=${place}>${near && children}</section>`;
}
