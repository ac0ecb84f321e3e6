const $ = (id) => document.getElementById(id);
/* Where the service begins: it may lie behind a prefix. */
const ROOT = new URL(document.body.dataset.root, location.href).href;
/* Who asks where everybody may: nobody logs in there. */
const ANYBODY = "anonymous";
const OVER = "Your session is over. ";

/* Who asks ({name, roles}), once the service has said it. */
let session = null;
/* What a page does: load() fetches, and returns what draws it and says whether something is under way; clear() forgets what it
   shows; always(), if it is there, shows what everybody may see. */
let page = null;

/* What came instead of an answer. status: 0 where nothing did; detail: what to do; message: the same with the status before it. */
class Failure extends Error {
  constructor(status, detail, title) {
    super((title ? status + " " + title + ": " : "") + detail);
    this.status = status;
    this.detail = detail;
  }
}

async function send(path, options) {
  let response, body;
  try {
    response = await fetch(ROOT + path, { cache: "no-cache", ...options });
  } catch (error) {
    throw new Failure(0, "The service does not answer at " + ROOT + ": is it running, and the network up? It is asked again. ("
      + error.message + ")");
  }
  if (response.status === 204) return null;
  try {
    body = await response.json();
    if (response.ok) return body;
  } catch {
    body = null;
  }
  if (!body || typeof body.detail !== "string") {
    throw new Failure(response.status, "this is no answer of the service, but of something on the way to it, such as a proxy",
      response.statusText || "came back");
  }
  const wait = response.status === 429 ? response.headers.get("retry-after") : null;
  throw new Failure(response.status, body.detail + (wait ? "; try again in " + wait + " s" : ""), body.title);
}

const ask = (path) => send(path);

/* Where nothing changes, nothing is written: a reader of the screen would read it again. */
function say(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
  $(id).hidden = !text;
}

/* A time with its zone: the reader's own. */
const time = (text) => text ? new Date(text).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" }) : "–";

/* A verdict in words, with how large the fault is; documents of older versions do not say. */
function withSeverity(diagnosis, words) {
  return diagnosis.severity && diagnosis.severity !== "none" ? diagnosis.severity + " " + words : words;
}

function may(role, model) {
  return session.roles.some((grant) => {
    const [held, ...of] = grant.split(":");
    return (held === role || role === "read") && (!of.length || of.join(":") === model);
  });
}

/* Such as "write, promote (churn)". */
function roles() {
  const told = [];
  for (const role of ["read", "write", "promote"]) {
    const models = session.roles.filter((grant) => grant.split(":")[0] === role).map((grant) => grant.slice(role.length + 1));
    if (models.includes("")) told.push(role);
    else if (models.length) told.push(role + " (" + (models.length > 3 ? models.length + " models" : models.join(", ")) + ")");
  }
  return told.join(", ");
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

function showWho() {
  const known = session !== null && session.name !== ANYBODY;
  $("who").hidden = !known;
  if (known) {
    $("name").textContent = session.name;
    $("roles").textContent = "may " + roles();
    $("roles").title = session.roles.join("\n");
  }
  for (const link of document.querySelectorAll("[data-needs]")) {
    link.hidden = session === null || (link.dataset.needs === "all" && !may("read"));
  }
}

function askToLogIn(why) {
  const already = !$("login").hidden;
  session = null;
  page.clear();
  showWho();
  say("problem", "");
  $("data").hidden = true;
  if (already) return;
  say("why", why);
  say("wrong", "");
  $("login").hidden = false;
  $("key").focus();
}

/* Finds out who asks; false, with the form shown, where somebody has to log in. */
async function identify() {
  try {
    session = await ask("v1/session");
  } catch (error) {
    if (error.status === 401) askToLogIn(session ? OVER + sentence(error.detail) : "To see models and refits, show who you are.");
    else if (error.status === 403) askToLogIn("You are known, but may see nothing. " + sentence(error.detail));
    else throw error;
    return false;
  }
  $("login").hidden = true;
  $("data").hidden = false;
  showWho();
  return true;
}

async function refresh() {
  if (page.always) await page.always();
  try {
    if (session === null && (!$("login").hidden || !(await identify()))) return false;
    const asked = session, draw = await page.load();
    /* Somebody may have logged out while it came. */
    if (session !== asked) return false;
    say("problem", "");
    return draw();
  } catch (error) {
    if (error.status === 401) askToLogIn(OVER + sentence(error.detail));
    else say("problem", error.message);
    return false;
  }
}

/* Somebody may have logged in or out in another tab meanwhile. */
async function look() {
  if (document.hidden) return;
  try {
    if (await identify()) await refresh();
  } catch (error) {
    say("problem", error.message);
  }
}

async function logIn(event) {
  event.preventDefault();
  const key = $("key"), button = $("login").querySelector("button");
  button.disabled = true;
  say("wrong", "");
  try {
    await send("v1/session", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ key: key.value }) });
    key.value = "";
    key.removeAttribute("aria-invalid");
    $("login").hidden = true;
    await refresh();
    if ($("login").hidden) document.querySelector("h1").focus();
  } catch (error) {
    say("wrong", sentence(error.detail));
    if (error.status === 401) key.setAttribute("aria-invalid", "true");
    key.focus();
    key.select();
  } finally {
    button.disabled = false;
  }
}

async function logOut() {
  try {
    await send("v1/session", { method: "DELETE" });
    askToLogIn("You are logged out.");
  } catch (error) {
    say("problem", "You are still logged in. " + error.message);
  }
}

/* Fills the page, and goes on: sooner while something is under way. */
function begin(what, soon, later) {
  page = what;
  const loop = async () => setTimeout(loop, !document.hidden && (await refresh()) ? soon : later);
  $("login").addEventListener("submit", logIn);
  $("logout").addEventListener("click", logOut);
  document.addEventListener("visibilitychange", look);
  loop();
}
