/*
 * When to ask the service again: a stream of it says when there is something new. A browser allows six connections to a host, over all
 * its tabs, so that hidden pages hold no stream.
 */

import { ROOT } from "page/api.js";

const GRACE_MS = 4000; // a stream ends every now and then, and the browser connects again
const PAUSES_MS = [2000, 30000]; // before a new stream where the last was refused: at first, and at most

/** @typedef {"evaluation" | "alert" | "all"} News all: nobody knows what was missed */
/** @type {Set<(news: News) => void>} */
const listeners = new Set();
/** @type {EventSource | null} */
let source = null;
/** @type {{ evaluated_at: string | null, evaluation: number, alert: number } | null} */
let last = null;
let live = false;
let wasLost = false;
let pause = PAUSES_MS[0];
let retry = 0;
let grace = 0;

/** Whether changes are heard as they happen; otherwise ask every so often. */
export const isLive = () => live;

/** When models were last evaluated, as the stream says; null where it has said nothing. */
export const evaluatedAt = () => (live ? (last?.evaluated_at ?? null) : null);

/** What a change of a path's answer is told as; null: the stream does not say. @param {string} path @returns {News | null} */
export function newsOf(path) {
  if (path.startsWith("v1/alerts")) return "alert";
  return /^v1\/(models|evidence|reports)/.test(path) && !path.includes("/recalibration") ? "evaluation" : null;
}

/** Calls a function with what is new; returns how to end that. @param {(news: News) => void} listener */
export function listen(listener) {
  listeners.add(listener);
  open();
  return () => {
    listeners.delete(listener);
    if (!listeners.size) close();
  };
}

/** @param {News} news */
function tell(news) {
  for (const listener of [...listeners]) listener(news);
}

/** @param {boolean} now */
function setLive(now) {
  live = now;
  dispatchEvent(new Event("live"));
}

function open() {
  if (source || document.hidden || !listeners.size) return;
  clearTimeout(retry);
  source = new EventSource(`${ROOT}v1/updates`);
  source.onmessage = ({ data }) => {
    clearTimeout(grace);
    grace = 0;
    pause = PAUSES_MS[0];
    const before = last;
    last = /** @type {NonNullable<typeof last>} */ (JSON.parse(data));
    setLive(true);
    if (wasLost) tell("all");
    else {
      if (last.alert !== before?.alert) tell("alert");
      if (last.evaluation !== before?.evaluation) tell("evaluation");
    }
    wasLost = false;
  };
  source.onerror = () => {
    if (source?.readyState === EventSource.CLOSED) {
      // Refused, which the browser does not try again.
      close();
      retry = setTimeout(open, pause);
      pause = Math.min(2 * pause, PAUSES_MS[1]);
      lost();
    } else if (!grace) grace = setTimeout(lost, GRACE_MS);
  };
}

function lost() {
  wasLost = true;
  if (!live) return;
  setLive(false);
  tell("all");
}

function close() {
  clearTimeout(grace);
  clearTimeout(retry);
  grace = 0;
  source?.close();
  source = null;
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    close();
    live = false;
  } else {
    open();
    tell("all");
  }
});
