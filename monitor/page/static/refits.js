/* The refits, the newest first. */

import { ROOT, send, withQuery } from "page/api.js";
import { Exports } from "page/export.js";
import { ServiceTime, State, wordOf } from "page/parts.js";
import { Progress, took, whatOf } from "page/refit_parts.js";
import { ModelLink, Problem, show, useAnswer, useTitle } from "page/ui.js";
import { html, useState } from "page/vendor/preact.js";

const PATH = "v1/recalibrations";

const HEADS = ["State", "Model", "Version", "Refit", "Method", "What came of it", "Asked for", "By", "Because of", "Started", "Finished"];

/** A refit as a row of a file: times in UTC. @param {any} job */
const rowOf = (job) =>
  [
    wordOf(job.state),
    job.model,
    job.version,
    job.id,
    job.method,
    whatOf(job),
    job.requested_at,
    job.actor,
    job.trigger,
    job.started_at,
    job.finished_at,
  ].map((value) => value ?? "");

/** @param {{ roles: string[] }} props */
function Refits({ roles }) {
  useTitle("Refits");
  const { data, failure } = useAnswer(PATH, 3);
  const [older, setOlder] = useState(/** @type {any} */ (null));
  if (!data) return html`<${Problem} failure=${failure} />`;
  const newest = new Set(data.recalibrations.map((/** @type {any} */ job) => job.id));
  const jobs = [...data.recalibrations, ...(older?.jobs ?? []).filter((/** @type {any} */ job) => !newest.has(job.id))];
  const cursor = older ? older.cursor : data.next_cursor;
  const more = async () => {
    const answer = await send(withQuery(PATH, { cursor }));
    setOlder({ jobs: [...(older?.jobs ?? []), ...answer.recalibrations], cursor: answer.next_cursor });
  };
  const writes = roles.some((grant) => /^write(:|$)/.test(grant));
  return html`<${Problem} failure=${failure} stale />
    <div class="bar"><h1>Refits</h1> <small>${writes ? html`Ask for one on the page of a model or an alert, or with <code>monitor recalibrate MODEL --wait</code>.` : "Asking for one takes the role write."}</small></div>
    ${jobs.length === 0 && html`<p class="lead">No refit yet.</p>`}
    ${
      jobs.length > 0 &&
      html`<div class="scroll"><table class="rows">
      <thead><tr>${["State", "Model", "Refit", "Asked for", "By", "Took"].map((head) => html`<th scope="col" class="text">${head}</th>`)}</tr></thead>
      <tbody>${jobs.map(
        (/** @type {any} */ job) => html`<tr key=${job.id}>
        <td class="text"><${State} state=${job.state} /></td>
        <td class="text name"><${ModelLink} model=${job.model} version=${job.version} /> <small><bdi>${job.version}</bdi></small></td>
        <td class="text what"><a href="${ROOT}recalibrations/${encodeURIComponent(job.id)}">${job.method}</a> <${Progress} job=${job} /><br /><small><bdi>${whatOf(job)}</bdi></small></td>
        <td class="text" data-title="Asked for"><${ServiceTime} at=${job.requested_at} relative /></td>
        <td class="text" data-title="By"><bdi>${job.actor}</bdi>${job.trigger !== "request" && html` <small>${job.trigger}</small>`}</td>
        <td class="text" data-title="Took">${took(job)}</td>
      </tr>`,
      )}</tbody></table></div><${Exports} title="refits" heads=${HEADS} rows=${() => jobs.map(rowOf)} plot=${false} />`
    }
    ${cursor && html`<p><button type="button" onClick=${more}>Older ones</button></p>`}`;
}

show("recalibrations", Refits);
