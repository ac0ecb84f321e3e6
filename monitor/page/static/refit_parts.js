/* What the list of refits and the page of one say in common. */
import { html } from "page/vendor/preact.js";
import { number } from "page/words.js";

const UNDER_WAY = ["queued", "running"];
const STALE = "It may not serve: what it was compared with serves no more, or there is a newer candidate. Refit to compare again.";

/** @type {Record<string, string>} */
const MEANS = {
  candidate: "It is better on later events, which its fit never saw, and waits for a promotion.",
  champion: "Its map serves.",
  retired: "Its map served until another replaced it.",
  rolled_back: "Its map was taken back.",
  rejected: "It is not better: it never serves.",
};

/** @param {any} job */
export const underWay = (job) => UNDER_WAY.includes(job.state);

/** The reason of a refit's end, or what its state means. @param {any} job @returns {string} */
export function whatOf(job) {
  if (underWay(job)) return job.step;
  if (job.state === "candidate" && !job.links.promotion) return STALE;
  return job.reason || MEANS[job.state] || "";
}

/** @param {any} job */
export function took(job) {
  if (!job.started_at || !job.finished_at) return "";
  return `${number((Date.parse(job.finished_at) - Date.parse(job.started_at)) / 1000)} s`;
}

/** In hundredths of a probability. @param {number} value */
const points = (value) => (value < 0.001 ? "less than 0.1" : number(100 * value, 2));

/**
 * By how many points predictions are off at worst among events that are alike; null where chance explains it, or nobody looked.
 * @param {any} map of a comparison
 */
export function localError(map) {
  const worst = map?.local?.mlce;
  return worst && worst.value > worst.null_q95 ? points(worst.value) : null;
}

/** What a map changes, in a sentence: the worst local error first. @param {any} maps of a comparison */
export function repairs({ none, challenger }) {
  const errors = [
    ["worst local error", none.local?.mlce, challenger.local?.mlce],
    ["calibration error (smCE)", none.measures.smce, challenger.measures.smce],
  ];
  return errors
    .filter(([, before, after]) => before && after)
    .map(([name, before, after]) => {
      const chance = before.null_q95 !== null && before.value <= before.null_q95 ? " (within chance before)" : "";
      return `${name} ${points(before.value)} → ${points(after.value)} percentage points${chance}`;
    })
    .join("; ");
}

/** @param {{ job: any }} props */
export function Progress({ job }) {
  if (!underWay(job)) return null;
  return html`<progress max="1" value=${job.progress} aria-label="Progress"></progress> ${Math.round(100 * job.progress)} % `;
}
