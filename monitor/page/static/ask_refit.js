/* The button that asks for a refit, with the method that it is to use. */

import { modelPath, ROOT, sendJson, withQuery } from "page/api.js";
import { Ask } from "page/dialog.js";
import { useAnswer } from "page/ui.js";
import { html, useRef } from "page/vendor/preact.js";

/** @param {{ model: string, chosen: any }} props chosen: a reference to the name of the method */
function Methods({ model, chosen }) {
  const { data } = useAnswer("v1/recalibration-methods", 3600);
  const of = useAnswer(withQuery("v1/models", { model }), 3600).data?.models[0];
  const fits = (/** @type {any} */ one) => one.binary || of?.policy?.classes.length > 0;
  // Groups have to be named in the settings or on the command line; the identity changes nothing.
  const methods = (data?.methods ?? []).filter((/** @type {any} */ one) => !one.needs_segments && one.name !== "identity" && fits(one));
  return html`<label>Method <select onChange=${(/** @type {any} */ event) => {
    chosen.current = event.target.value;
  }}>
    <option value="">as the settings say</option>
    ${methods.map((/** @type {any} */ one) => html`<option value=${one.name} title=${one.meaning}>${one.title}${one.needs_features ? " (needs features)" : ""}</option>`)}
  </select></label>`;
}

/**
 * @param {{ model: string, version: string, alert?: string, what: any, label: string, main?: boolean }} props
 *   alert: its id, for a refit on the events since its change; what: what will happen
 */
export function AskRefit({ model, version, alert, what, label, main = false }) {
  const chosen = useRef("");
  const refit = async () => {
    const asked = { version, ...(alert && { alert }), ...(chosen.current && { method: chosen.current }) };
    const made = await sendJson(`v1/models/${modelPath(model)}/recalibrations`, asked);
    location.href = `${ROOT}recalibrations/${made.id}`;
  };
  return html`<${Ask} main=${main} label=${label} title="Fit a new map" what=${html`${what}<${Methods} model=${model} chosen=${chosen} />`} act=${refit} />`;
}
