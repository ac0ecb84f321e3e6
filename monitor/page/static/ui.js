/* What all pages of the service have in common: the frame, questions to the service, failures, the log-in. */

import { ask, askAll, Failure, isPath, modelPath, ROOT, SESSION, send, sendJson } from "page/api.js";
import { isLive, listen, newsOf } from "page/live.js";
import { ageOf, Time, watchScrollers } from "page/parts.js";
import { html, render, useEffect, useRef, useState } from "page/vendor/preact.js";
import { isUtc, sentence, setSimulation, switchZone, timeText } from "page/words.js";

export { Numbers, Power, State, Time, toneOf } from "page/parts.js";

/**
 * What a path answers, asked again while the page is seen: when the service says that there is something new, and not sooner than so many
 * seconds after the last time; that often where it does not say. The same answer draws nothing; the last one stays until there is another,
 * also of another path, unless that is refused.
 * @param {string | null} path null: nothing is asked for @param {number} [seconds]
 * @param {string} [list] the name of a list that is answered in parts, of which all are wanted
 * @returns {{ data: any, of: string | null, failure: Failure | null, again: () => void }} of: the path that gave the data
 */
export function useAnswer(path, seconds = 10, list) {
  const [data, setData] = useState(/** @type {any} */ (null));
  const [of, setOf] = useState(/** @type {string | null} */ (null));
  const [failure, setFailure] = useState(/** @type {Failure | null} */ (null));
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (path === null) return undefined;
    const news = newsOf(path);
    let left = false;
    let busy = false;
    let missed = false;
    let timer = 0;
    let asked = 0;
    let tag = /** @type {string | null} */ (null);
    let shown = /** @type {Date | null} */ (null);
    const later = () => {
      if (!timer && !left) timer = setTimeout(load, Math.max(0, asked + seconds * 1000 - performance.now()));
    };
    const load = async () => {
      clearTimeout(timer);
      timer = 0;
      if (document.hidden) return;
      if (busy) {
        missed = true;
        return;
      }
      busy = true;
      asked = performance.now();
      try {
        const answer = await (list ? askAll(path, tag, list) : ask(path, tag));
        if (left) return;
        if (tag === null || answer.tag !== tag) setData(answer.body);
        setOf(path);
        tag = answer.tag;
        shown = new Date();
        setFailure(null);
      } catch (error) {
        const failed = /** @type {Failure} */ (error);
        failed.shown = shown;
        if (left) return;
        if (shown === null && failed.status >= 400 && failed.status < 500) setData(null);
        setFailure(failed);
      } finally {
        busy = false;
        if (missed) {
          missed = false;
          load();
        } else if (!news || !isLive()) later();
      }
    };
    const end = listen((what) => {
      // A promotion or rollback resolves alerts, and evidence begins anew: so models are another answer, too.
      if (what === "all" || (what === "alert" && (news === what || path.startsWith("v1/models?")))) load();
      else if (what === news) later();
    });
    load();
    return () => {
      left = true;
      clearTimeout(timer);
      end();
    };
  }, [path, seconds, list, round]);
  return { data, of, failure, again: () => setRound(round + 1) };
}

/**
 * A field whose text counts once it is entered; the page that is drawn again leaves what is being typed.
 * @param {{ value: string, onChange: (value: string) => void, [attribute: string]: unknown }} props
 */
export function Field({ value, onChange, ...attributes }) {
  const place = useRef(/** @type {any} */ (null));
  useEffect(() => {
    if (document.activeElement !== place.current) place.current.value = value;
  }, [value]);
  return html`<input ref=${place} ...${attributes} onChange=${(/** @type {any} */ event) => onChange(event.target.value)} />`;
}

/** A model, as a link to one of its versions. @param {{ model: string, version: string }} props */
export function ModelLink({ model, version }) {
  if (!isPath(model)) return html`<bdi>${model}</bdi>`;
  return html`<a href="${ROOT}models/${modelPath(model)}?version=${encodeURIComponent(version)}"><bdi>${model}</bdi></a>`;
}

/** @param {{ failure: Failure | null, stale?: boolean }} props */
export function Problem({ failure, stale = false }) {
  if (!failure) return null;
  return html`<p class=${stale ? "banner calm" : "banner"} role="alert">
    ${sentence(failure.message)}${failure.help && html` <${Help} to=${failure.help} />`}${stale && failure.shown ? html` What is shown is of <${Time} at=${failure.shown.toISOString()} relative />.` : ""}
  </p>`;
}

/** A link to the paragraph of the documentation that explains a word. @param {{ to: string }} props below /help */
export const Help = ({ to }) => html`<small><a href=${`${ROOT}help/${to}`}>What this means</a></small>`;

/** How changes come to the page. */
function Live() {
  const [live, setLive] = useState(isLive);
  useEffect(() => {
    const look = () => setLive(isLive());
    addEventListener("live", look);
    return () => removeEventListener("live", look);
  }, []);
  return live
    ? html`<span class="soft" title="The service says when there is something new."><span class="good" aria-hidden="true">●</span> live</span>`
    : html`<span class="soft" title="The service does not say when there is something new: it is asked every so often."><span aria-hidden="true">○</span> not live</span>`;
}

/** Ages grow also where nothing else changes. */
setInterval(() => {
  for (const time of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("time[data-ago]"))) {
    if (time.firstChild)
      /** @type {Text} */ (time.firstChild).data = ageOf(/** @type {HTMLTimeElement} */ (time).dateTime, time.dataset.ago);
  }
}, 5000);

/** @param {{ why: string, onDone: () => void }} props */
function LogIn({ why, onDone }) {
  const [wrong, setWrong] = useState("");
  const [busy, setBusy] = useState(false);
  const field = useRef(/** @type {any} */ (null));
  useEffect(() => field.current.focus(), []);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await sendJson(SESSION, { key: field.current.value });
      onDone();
    } catch (error) {
      setWrong(sentence(/** @type {Failure} */ (error).detail));
      field.current.select();
    } finally {
      setBusy(false);
    }
  };
  return html`<section class="login card">
    <h1>Log in</h1>
    <p>${why}</p>
    <form onSubmit=${submit}>
      <label for="key">API key or token</label>
      <input id="key" type="password" autocomplete="current-password" required ref=${field} aria-invalid=${wrong ? "true" : null} aria-describedby="wrong" />
      <p id="wrong" role="alert" class="soft">${wrong}</p>
      <button class="main" disabled=${busy}>Log in</button>
    </form>
  </section>`;
}

const SIMULATED_MS = 5000; // after which the clock of a simulation is asked for again
const ANYBODY = "anonymous";

/** Whether roles, such as `write:churn`, allow something of a model. @param {string[]} roles @param {string} role @param {string} [model] */
export const may = (roles, role, model) =>
  roles.some((grant) => {
    const [held, ...of] = grant.split(":");
    return (held === role || role === "read") && (!of.length || of.join(":") === model);
  });

const PLACES = [
  ["", "Fleet"],
  ["alerts", "Alerts"],
  ["recalibrations", "Refits"],
];

/**
 * The frame of a page: who asks, where one may go, and the page itself once it is known who asks.
 * @param {{ place: string, page: (props: { roles: string[] }) => any, anybody: boolean }} props
 */
function Frame({ place, page: Page, anybody }) {
  const [session, setSession] = useState(
    /** @type {{ name: string, roles: string[], simulated_now: string | null, simulation: any } | null} */ (null),
  );
  const [why, setWhy] = useState("");
  const [failure, setFailure] = useState(/** @type {Failure | null} */ (null));
  const wasKnown = useRef(false);
  const identify = async () => {
    try {
      const answer = await send(SESSION);
      setSimulation(answer.simulation);
      setSession(answer);
      wasKnown.current = true;
      setWhy("");
      setFailure(null);
    } catch (error) {
      const failed = /** @type {Failure} */ (error);
      if (failed.status === 401) {
        const first = wasKnown.current ? `Your session is over. ${sentence(failed.detail)}` : "To see models and alerts, show who you are.";
        wasKnown.current = false;
        setWhy((before) => before || first);
        setSession(null);
      } else if (failed.status === 403) setWhy(`You are known, but may see nothing. ${sentence(failed.detail)}`);
      else setFailure(failed);
    }
  };
  useEffect(() => {
    identify();
    const look = () => document.hidden || identify();
    document.addEventListener("visibilitychange", look);
    const lost = (/** @type {any} */ event) => {
      if (!wasKnown.current) return; // questions that do not wait for the session: its own answer says why
      setWhy((before) => before || `Your session is over. ${sentence(event.detail)}`);
      wasKnown.current = false;
      setSession(null);
    };
    addEventListener("session-over", lost);
    return () => {
      document.removeEventListener("visibilitychange", look);
      removeEventListener("session-over", lost);
    };
  }, []);
  const isSimulated = Boolean(session?.simulated_now);
  useEffect(() => {
    // The clock of a simulation runs at a speed of its own.
    const timer = isSimulated ? setInterval(() => document.hidden || identify(), SIMULATED_MS) : 0;
    return () => clearInterval(timer);
  }, [isSimulated]);
  const logOut = async () => {
    await send(SESSION, { method: "DELETE" });
    wasKnown.current = false;
    setSession(null);
    setWhy("You are logged out.");
  };
  const known = session && session.name !== ANYBODY;
  return html`<header class="top">
      <a class="name" href=${ROOT}>Calibration monitor</a>
      <nav aria-label="Pages">
        ${PLACES.map(([path, name]) => html`<a href=${ROOT + path} aria-current=${path === place ? "page" : null}>${name}${path === "alerts" && (session || anybody) && html`<${OpenAlerts} />`}</a>`)}
        <a href="${ROOT}docs">API</a>
      </nav>
      ${session && html`<div class="who"><${Live} />${session.simulated_now && html`<span class="pill warn" title=${`Events are simulated, and their clock runs faster: for them it is ${timeText(session.simulated_now)}. All times are theirs.`}>simulated time</span>`}<${Zone} />${known && html`<span title=${session.roles.join("\n")}>${session.name}</span> <button type="button" onClick=${logOut}>Log out</button>`}</div>`}
    </header>
    <main>
      <${Problem} failure=${failure} />
      ${why ? html`<${LogIn} why=${why} onDone=${identify} />` : (session || anybody) && html`<${Page} roles=${session?.roles ?? []} />`}
    </main>`;
}

/** Name the tab by what it shows. @param {string} text */
export function useTitle(text) {
  useEffect(() => {
    document.title = `${text} · Calibration monitor`;
  }, [text]);
}

/** The zone of all times, and the other one a click away. */
function Zone() {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (own === "UTC") return html`<span title="times are in UTC">UTC</span>`;
  const what = isUtc ? `Times are in UTC: show them in ${own}` : `Times are in ${own}: show them in UTC`;
  return html`<button type="button" title=${what} onClick=${switchZone}>${isUtc ? "UTC" : own}</button>`;
}

/** How many alerts are open, in the navigation. */
function OpenAlerts() {
  const { data } = useAnswer("v1/alerts?state=open&limit=100", 30);
  const open = data?.alerts.length;
  return open ? html` <span class="pill bad" title="open alerts">${data.next_cursor ? `${open}+` : open}</span>` : null;
}

/**
 * Show a page.
 * @param {string} place @param {(props: { roles: string[] }) => any} page
 * @param {boolean} [anybody] also while it is not known who asks; roles is empty then
 */
export function show(place, page, anybody = false) {
  watchScrollers();
  render(html`<${Frame} place=${place} page=${page} anybody=${anybody} />`, document.body);
}
