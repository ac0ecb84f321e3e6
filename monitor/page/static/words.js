/* How numbers and times are written. */

const formats = new Map();

/** @param {string} key @param {() => Intl.NumberFormat} make @returns {Intl.NumberFormat} */
function format(key, make) {
  if (!formats.has(key)) formats.set(key, make());
  return formats.get(key);
}

const MISSING = "–";

/** Three significant digits, or as many as asked for. @param {number | null | undefined} value */
export function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  return format(`n${digits}`, () => new Intl.NumberFormat("en", { maximumSignificantDigits: digits })).format(value);
}

/** @param {number | null | undefined} value */
export function count(value) {
  if (value === null || value === undefined) return MISSING;
  return format("c", () => new Intl.NumberFormat("en", { maximumFractionDigits: 0 })).format(value);
}

/** Such as 206k. @param {number | null | undefined} value */
export function short(value) {
  if (value === null || value === undefined) return MISSING;
  const of = () => new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
  return format("s", of).format(value);
}

/** @param {number | null | undefined} value */
export function percent(value) {
  if (value === null || value === undefined) return MISSING;
  return format("p", () => new Intl.NumberFormat("en", { style: "percent", maximumSignificantDigits: 3 })).format(value);
}

/** Names of windows as people read them: one of the last predictions holds whole panes. @param {string[]} windows such as last-10000 */
export function windowNames(windows) {
  return Object.fromEntries(
    windows.map((name) => [name, name.replace(/^last-(\d+)/, (_, least) => `at least the last ${count(Number(least))}`)]),
  );
}

/** How many decimals an interval deserves: two digits of half its width. @param {number} lower @param {number} upper */
export function decimalsOf(lower, upper) {
  const half = (upper - lower) / 2;
  return half > 0 ? Math.min(Math.max(1 - Math.floor(Math.log10(half)), 0), 8) : 3;
}

/**
 * A value with the digits that its interval deserves, and a sign where `signed`.
 * @param {number | null | undefined} value @param {number | null | undefined} lower @param {number | null | undefined} upper
 */
export function certain(value, lower, upper, signed = false) {
  if (value === null || value === undefined) return MISSING;
  if (lower === null || lower === undefined || upper === null || upper === undefined) return number(value);
  const text = value.toFixed(decimalsOf(lower, upper));
  return signed && value > 0 ? `+${text}` : text;
}

/** @param {number | null | undefined} lower @param {number | null | undefined} upper */
export function interval(lower, upper) {
  if (lower === null || lower === undefined || upper === null || upper === undefined) return "";
  const decimals = decimalsOf(lower, upper);
  return `${lower.toFixed(decimals)} to ${upper.toFixed(decimals)}`;
}

const UNITS = /** @type {const} */ ([
  ["d", 86400],
  ["h", 3600],
  ["min", 60],
  ["s", 1],
]);

/** Such as "3 h", of the largest unit that it holds twice. @param {number} seconds */
export function duration(seconds) {
  const unit = UNITS.find(([, size]) => seconds >= 2 * size) ?? UNITS[3];
  return `${Math.round(seconds / unit[1])} ${unit[0]}`;
}

/** How the time of events runs, if they are simulated. @type {{ began_at: string, start: string, speed: number } | null} */
let simulation = null;

/** Set the clock of events. @param {typeof simulation} simulated null: events are of the time of the browser */
export const setSimulation = (simulated) => {
  simulation = simulated;
};

/** The time of events when the clock stood at a time, in milliseconds: they are the same but in a simulation. @param {number} ms */
export const eventsTime = (ms) =>
  simulation ? Math.min(ms, Date.parse(simulation.start) + Math.max(ms - Date.parse(simulation.began_at), 0) * simulation.speed) : ms;

/** The time that it is for events, in milliseconds. */
export const eventsNow = () => eventsTime(Date.now());

/** Such as "3 h ago". @param {string} at @param {number} [now] */
export function ago(at, now = Date.now()) {
  const seconds = (now - Date.parse(at)) / 1000;
  return seconds < 5 ? "now" : `${duration(seconds)} ago`;
}

const ZONE = "times"; // what the reader chose: "UTC", or nothing for the zone of the browser

/** Whether times are shown in UTC: what is one file is read in many zones, and says UTC in its sentences. */
export const isUtc = document.getElementById("document") !== null || localStorage.getItem(ZONE) === "UTC";

/** The one zone of all times that are shown, as Intl has it; undefined: the browser's. */
export const zone = isUtc ? "UTC" : undefined;

/** Show times in UTC, or in the zone of the browser again. */
export function switchZone() {
  if (isUtc) localStorage.removeItem(ZONE);
  else localStorage.setItem(ZONE, "UTC");
  location.reload();
}

/** In the zone that is chosen. @param {string | number} at */
export const timeText = (at) => new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short", timeZone: zone });

/** A time as an input of the browser has it, in the zone that is chosen; nothing of what is none. @param {number} ms */
export const inputTime = (ms) =>
  Number.isNaN(ms) ? "" : new Date(isUtc ? ms : ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);

/** The time that an input has, in milliseconds. @param {string} text */
export const timeOfInput = (text) => new Date(isUtc ? `${text}Z` : text).getTime();

/** @param {string | number} at */
export const utcTime = (at) => `${new Date(at).toISOString().replace("T", " ").slice(0, 19)} UTC`;

/**
 * A text of the service, with its times in the zone that is chosen.
 * @param {string} text @param {(ms: number) => number} [shown] the time to show for one of the text: `eventsTime` of what happened in the service
 */
export const inZone = (text, shown) =>
  isUtc && !shown
    ? text
    : text.replace(/(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}) UTC/g, (_, day, time) => {
        const ms = Date.parse(`${day}T${time}Z`);
        return timeText(shown ? shown(ms) : ms);
      });

/** The first letter large, a full stop, and its times in the zone that is chosen. @param {string} text */
export const sentence = (text) => inZone(text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : "."));

/** @param {number} value @param {string} one @param {string} [many] */
export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;
