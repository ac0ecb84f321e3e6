/* One alert: what, since when, for whom, before and after, and what to do. */

import { modelPath, ROOT, sendJson } from "page/api.js";
import { Ask } from "page/dialog.js";
import { Power, State, Time, toneOf } from "page/parts.js";
import { Reliability } from "page/plots/reliability.js";
import { may, Problem, show, useAnswer } from "page/ui.js";
import { html } from "page/vendor/preact.js";
import { certain, count, interval, number, percent, sentence } from "page/words.js";

const ID = decodeURIComponent(location.pathname.split("/").filter(Boolean).at(-1) ?? "");

/** @type {Record<string, string>} */
const ENDED = {
  over: "the data speak against it now",
  stopped: "the version has no more events",
  promoted: "another map serves",
  rolled_back: "the map was rolled back",
};

/** The numbers of the time before, and after. @param {{ before: any, after: any }} props */
function Spans({ before, after }) {
  const spans = [before, after].filter(Boolean);
  const row = (/** @type {string} */ title, /** @type {(span: any) => any} */ cell) =>
    html`<tr><th scope="row" class="text">${title}</th>${spans.map((span) => html`<td>${cell(span)}</td>`)}</tr>`;
  const fitted =
    (/** @type {string} */ name, signed = false) =>
    (/** @type {any} */ span) => {
      const [lower, upper] = span[`${name}_interval`] ?? [null, null];
      return html`${certain(span[name], lower, upper, signed)} <small>${interval(lower, upper)}</small>`;
    };
  return html`<div class="scroll"><table><thead><tr><td></td>${spans.map((span) => html`<th scope="col">${span === before ? "before" : "since"}</th>`)}</tr></thead><tbody>
    ${row("from", (span) => html`<${Time} at=${span.from} />`)}
    ${row("to", (span) => html`<${Time} at=${span.to} />`)}
    ${row("labelled predictions", (span) => count(span.labelled))}
    ${row("came true", (span) => percent(span.prevalence))}
    ${row("predicted on average", (span) => percent(span.mean_prediction))}
    ${row("offset of the logits", fitted("offset", true))}
    ${row("slope of the logits", fitted("slope"))}
  </tbody></table></div>`;
}

/** The bins of a span as a diagram has them. @param {{ bins: any[] }} span */
const diagramOf = ({ bins }) => ({
  axis: "probability",
  probability: {
    from: 0,
    to: 1,
    bins: {
      n: bins.map((bin) => bin.labelled),
      positives: bins.map((bin) => bin.positives),
      prediction: bins.map((bin) => bin.prediction_sum / bin.labelled),
      rate: bins.map((bin) => bin.positives / bin.labelled),
    },
  },
});

/** @param {{ roles: string[] }} props */
function Alert({ roles }) {
  const { data, failure, again } = useAnswer(`v1/alerts/${encodeURIComponent(ID)}`);
  if (!data) return html`<${Problem} failure=${failure} />`;
  const { document: told, model, version } = data;
  const open = data.state === "firing" || data.state === "acknowledged";
  const acknowledge = async (/** @type {string} */ note) => {
    await sendJson(`v1/alerts/${data.id}/acknowledgement`, { note });
    again();
  };
  const refit = async () => {
    const made = await sendJson(`v1/models/${modelPath(model)}/recalibrations`, { version, alert: data.id });
    location.href = `${ROOT}recalibrations/${made.id}`;
  };
  return html`<${Problem} failure=${failure} stale />
    <div class="bar"><h1><a href="${ROOT}models/${modelPath(model)}?version=${encodeURIComponent(version)}"><bdi>${model}</bdi></a> <small>${version}</small></h1> <${State} state=${data.state} />
      ${data.acknowledged_by && html`<span class="soft">${data.acknowledged_by} has it</span>`}
      <span class="right"></span>
      ${
        open &&
        may(roles, "write", model) &&
        html`<${Ask} main label="Acknowledge" title="Acknowledge this alert" what=${html`<p>Others see that you have it, and reminders stop. It stays until the data speak against it.</p>`} note="Note" act=${acknowledge} />
        ${data.kind !== "map" && html`<${Ask} label="Refit since the change" title="Fit a new map" what=${html`<p>A map is fitted on the events since <${Time} at=${data.change_point.at} />, and compared on later ones. It serves only once it is promoted.</p>`} act=${refit} />`}`
      }
    </div>
    <p class=${`lead ${toneOf(data.state)}`}><bdi>${sentence(data.summary || data.kind)}</bdi></p>
    <div class="grid">
      <section class="card"><h2>Evidence</h2>
        <p><${Power} log10=${data.log10_evidence} />: the budget lets an alert fire at <${Power} log10=${data.log10_line} />.</p>
        <p>The change came <${Time} at=${data.change_point.at} />${data.change_point.from !== data.change_point.to && html`, between <${Time} at=${data.change_point.from} /> and <${Time} at=${data.change_point.to} />`}; ${count(data.events)} labelled predictions since, settled to <${Time} at=${data.settled_to} />.</p>
        ${data.resolved_at && html`<p>Resolved <${Time} at=${data.resolved_at} />: ${ENDED[data.resolved_because] ?? data.resolved_because}.</p>`}
      </section>
      ${told.remedy && html`<section class="card"><h2>What to do</h2><p>${sentence(told.remedy.text)}</p>${told.remedy.command && html`<p><code>${told.remedy.command}</code></p>`}</section>`}
      ${told.segments?.length > 0 && html`<section class="card"><h2>For whom</h2><ul>${told.segments.map((/** @type {any} */ each) => html`<li><bdi>${typeof each === "string" ? each : each.segment}</bdi>${each.n !== undefined && html` <small>${count(each.n)} predictions, evidence ${number(each.log10_evidence)}</small>`}</li>`)}</ul></section>`}
      ${told.before?.bins && html`<section class="card"><${Reliability} title="Before" data=${diagramOf(told.before)} /></section>`}
      ${told.after?.bins && html`<section class="card"><${Reliability} title="Since the change" data=${diagramOf(told.after)} /></section>`}
      ${told.after && html`<section class="card wide"><h2>Before and since</h2><${Spans} before=${told.before} after=${told.after} /></section>`}
      <section class="card wide"><h2>History</h2><div class="scroll"><table><tbody>${data.history.map(
        (/** @type {any} */ one) => html`<tr>
        <td class="text"><${Time} at=${one.at} /></td><td class="text"><${State} state=${one.state} /></td><td class="text">${one.actor}</td><td class="text"><bdi>${one.note}</bdi></td></tr>`,
      )}</tbody></table></div></section>
    </div>`;
}

show("alerts", Alert);
