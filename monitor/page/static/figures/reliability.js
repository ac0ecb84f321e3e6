/* How often predictions came true, of all of them or of one segment. */

import { FIGURES } from "page/figures.js";
import { Reliability } from "page/plots/reliability.js";
import { Witness } from "page/plots/witness.js";
import { html, useState } from "page/vendor/preact.js";

/**
 * @param {{ choices: { name: string, data: any }[], beside?: boolean }} props
 *   data: as the JSON of reports has `diagrams`; beside: all stand beside each other
 */
function Diagrams({ choices, beside = false }) {
  const [at, setAt] = useState(0);
  if (beside) return html`<div class="grid">${choices.map(({ name, data }) => html`<${Reliability} title=${name} data=${data} />`)}</div>`;
  return html`${
    choices.length > 1 &&
    html`<label>Shown${" "}<select value=${at} onChange=${(/** @type {any} */ event) => setAt(Number(event.target.value))}>
    ${choices.map((choice, place) => html`<option value=${place}>${choice.name}</option>`)}</select></label>`
  }
  <${Reliability} title=${choices[at].name} data=${choices[at].data} />
  <h3>Where it is wrong</h3><${Witness} data=${choices[at].data} />`;
}

FIGURES.reliability = Diagrams;
