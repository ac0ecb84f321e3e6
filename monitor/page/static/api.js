/* What the service answers: JSON of its public REST, and nothing else. */

/** Where the service begins: it may lie behind a prefix of a proxy. */
export const ROOT = new URL(document.body.dataset.root || "./", location.href).href;

/** The path of the session, whose refusal is the frame's to explain. That of any other is the event `session-over`. */
export const SESSION = "v1/session";

/** What came instead of an answer. */
export class Failure extends Error {
  /**
   * @param {number} status 0 where nothing answered
   * @param {string} detail what to do about it
   * @param {string} [title]
   * @param {string} [kind] the last part of the problem's type
   */
  constructor(status, detail, title, kind = "") {
    super(title ? `${status} ${title}: ${detail}` : detail);
    /** The paragraph that explains it, below /help; empty where the service did not answer. */
    this.help = kind && `answers.html#problem-${kind}`;
    this.status = status;
    this.detail = detail;
    /** When there was an answer before. @type {Date | null} */
    this.shown = null;
  }
}

/**
 * Sends a request; null where the answer has no content.
 * @param {string} path relative to the root of the service
 * @param {RequestInit} [options]
 * @returns {Promise<any>}
 */
export const send = async (path, options) => (await ask(path, null, options)).body;

/**
 * Sends a request, whose answer is not read where its tag is the one that is known.
 * @param {string} path @param {string | null} tag
 * @param {RequestInit} [options]
 * @returns {Promise<{ tag: string | null, body: any }>}
 */
export function ask(path, tag, options) {
  const begun = early.get(path);
  early.delete(path);
  return begun ?? request(path, tag, options);
}

/**
 * Asks for a list that the service answers in parts; all of it. There is no tag of several parts.
 * @param {string} path @param {string | null} tag @param {string} name of the list in the answer
 * @returns {ReturnType<typeof ask>}
 */
export async function askAll(path, tag, name) {
  const first = await ask(path, tag);
  if (!first.body?.next_cursor) return first;
  const items = [...first.body[name]];
  for (let cursor = first.body.next_cursor; cursor; ) {
    const { body } = await request(`${path}&cursor=${encodeURIComponent(cursor)}`, null);
    items.push(...body[name]);
    cursor = body.next_cursor;
  }
  return { tag: null, body: { ...first.body, [name]: items, next_cursor: null } };
}

/** @type {Map<string, ReturnType<typeof ask>>} */
const early = new Map();

/** Asks for what a page will ask for once it is known who asks. @param {string[]} paths */
export function askEarly(...paths) {
  for (const path of paths) {
    const answer = request(path, null);
    // Such as before the log-in: it is asked for again.
    answer.catch(() => early.delete(path));
    early.set(path, answer);
  }
}

/** @param {string} path @param {string | null} tag @param {RequestInit} [options] */
async function request(path, tag, options) {
  let response;
  try {
    response = await fetch(ROOT + path, { cache: "no-cache", ...options });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Failure(0, `The service does not answer at ${ROOT}: is it running, and the network up? It is asked again. (${why})`);
  }
  const newest = response.headers.get("etag");
  if (response.status === 204) return { tag: newest, body: null };
  if (response.ok && tag !== null && newest === tag) {
    await response.body?.cancel();
    return { tag, body: null };
  }
  let body = null;
  try {
    body = await response.json();
  } catch {
    // Told below: whatever this is, the service did not write it.
  }
  if (response.ok && body !== null) return { tag: newest, body };
  if (!body || typeof body.detail !== "string") {
    const title = response.statusText || "came back";
    throw new Failure(response.status, "this is no answer of the service, but of something on the way to it, such as a proxy", title);
  }
  if (response.status === 401 && path !== SESSION) dispatchEvent(new CustomEvent("session-over", { detail: body.detail }));
  const wait = response.status === 429 ? response.headers.get("retry-after") : null;
  throw new Failure(
    response.status,
    body.detail + (wait ? `; try again in ${wait} s` : ""),
    body.title,
    String(body.type ?? "")
      .split(":")
      .at(-1),
  );
}

/** @param {string} path @param {object} body @param {string} [method] */
export const sendJson = (path, body, method = "POST") =>
  send(path, { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

/**
 * A path with a query; parameters without a value are left out.
 * @param {string} path
 * @param {Record<string, string | number | null | undefined>} query
 */
export function withQuery(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `${path}?${text}` : path;
}

/** Whether a name can be a part of a path: a browser would send `zz/../churn` as `churn`. @param {string} model */
export const isPath = (model) => !model.split("/").some((part) => part === "" || part === "." || part === "..");

/** The path of a model below `models/`; its name may hold slashes. @param {string} model */
export function modelPath(model) {
  if (!isPath(model)) throw new Failure(404, `no path leads to a model with the name ${JSON.stringify(model)}`);
  return model.split("/").map(encodeURIComponent).join("/");
}
