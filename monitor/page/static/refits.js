/* The refits, the newest first. */

import { modelPath, ROOT } from "page/api.js";
import { State, Time } from "page/parts.js";
import { Progress, took, whatOf } from "page/refit_parts.js";
import { Problem, show, useAnswer } from "page/ui.js";
import { html } from "page/vendor/preact.js";

/** @param {{ roles: string[] }} props */
function Refits({ roles }) {
  const { data, failure } = useAnswer("v1/recalibrations?limit=100", 3);
  if (!data) return html`<${Problem} failure=${failure} />`;
  const jobs = data.recalibrations;
  const writes = roles.some((grant) => /^write(:|$)/.test(grant));
  return html`<${Problem} failure=${failure} stale />
    <h1>Refits</h1>
    ${jobs.length === 0 && html`<p class="lead">No refit yet. ${writes ? html`Ask for one on the page of a model, or with <code>monitor recalibrate MODEL --wait</code>.` : "Asking for one takes the role write."}</p>`}
    ${
      jobs.length > 0 &&
      html`<div class="scroll"><table>
      <thead><tr>${["State", "Model", "Method", "Asked for", "What came of it"].map((head) => html`<th scope="col" class="text">${head}</th>`)}</tr></thead>
      <tbody>${jobs.map(
        (/** @type {any} */ job) => html`<tr key=${job.id}>
        <td class="text"><${State} state=${job.state} /></td>
        <td class="text name"><a href="${ROOT}models/${modelPath(job.model)}?version=${encodeURIComponent(job.version)}"><bdi>${job.model}</bdi></a> <small>${job.version}</small></td>
        <td class="text"><a href="${ROOT}recalibrations/${encodeURIComponent(job.id)}">${job.method}</a></td>
        <td class="text"><${Time} at=${job.requested_at} relative /> <small>${job.actor}, ${job.trigger}</small></td>
        <td class="text"><${Progress} job=${job} /><bdi>${whatOf(job)}</bdi> <small>${took(job)}</small></td>
      </tr>`,
      )}</tbody></table></div>
      ${data.next_cursor && html`<p class="soft">The newest ${jobs.length} are shown.</p>`}`
    }`;
}

show("recalibrations", Refits);
