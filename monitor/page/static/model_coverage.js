/* How many predictions have an outcome: by their age, and over time. */

import { TableExport } from "page/export.js";
import { PATH } from "page/model_view.js";
import { LOW, TimePlot } from "page/plots/time.js";
import { Problem, useAnswer } from "page/ui.js";
import { html, useMemo } from "page/vendor/preact.js";
import { count, duration, percent } from "page/words.js";

/** @param {any} cohort */
function age({ from_seconds: from, to_seconds: to }) {
  return to === null ? `${duration(from)} and older (settled)` : `${from ? duration(from) : "0"} to ${duration(to)}`;
}

/** Over time. @param {{ points: any[], shared: import("page/plots/time.js").Shared }} props points of `GET /v1/models/{model}/history` */
export function CoveragePlot({ points, shared }) {
  const { times, lines } = useMemo(
    () => ({
      times: points.map((point) => Date.parse(point.to)),
      lines: [{ name: "with outcome", values: points.map((point) => (point.predictions ? point.n / point.predictions : null)) }],
    }),
    [points],
  );
  return html`<section class="card"><${TimePlot} title="Predictions with an outcome, of each window" times=${times} lines=${lines} shared=${shared} written=${percent} least=${0} most=${1} height=${LOW} /></section>`;
}

/** By age. @param {{ version: string }} props */
export function Coverage({ version }) {
  const { data, failure } = useAnswer(`${PATH}/coverage`, 60);
  const of = data?.versions.find((/** @type {any} */ one) => one.version === version);
  return html`<section class="card"><${TableExport} title="labels by age" /><h2>Predictions with an outcome, by age</h2>
    <${Problem} failure=${failure} />
    <p class="soft"><small>If outcomes stop, the youngest predictions lack theirs first.</small></p>
    ${data && !of && html`<p>No predictions of this version yet.</p>`}
    ${
      of &&
      html`<div class="scroll"><table><thead><tr><th scope="col" class="text">Age</th><th scope="col">Predictions</th><th scope="col">Labelled</th><th scope="col" class="text">Coverage</th></tr></thead>
    <tbody>${of.cohorts.map((/** @type {any} */ one) => {
      const share = one.predictions ? one.labelled / one.predictions : null;
      return html`<tr><th scope="row" class="text">${age(one)}</th><td>${count(one.predictions)}</td><td>${count(one.labelled)}</td>
        <td class="text share"><meter min="0" max="1" value=${share ?? 0} aria-hidden="true"></meter> ${percent(share)}</td></tr>`;
    })}</tbody></table></div>`
    }</section>`;
}
