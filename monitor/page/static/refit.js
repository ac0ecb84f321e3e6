/* One refit: what became of it, whether it is better, and letting it serve. */

import { modelPath, ROOT, sendJson } from "page/api.js";
import { Ask } from "page/dialog.js";
import { TableExport } from "page/export.js";
import { Figure } from "page/figures.js";
import "page/figures/lines.js";
import "page/figures/plane.js";
import "page/figures/reliability.js";
import "page/figures/strips.js";
import { Power, ServiceTime, State, Time, toneOf } from "page/parts.js";
import { Progress, repairs, took, underWay, whatOf } from "page/refit_parts.js";
import { ModelLink, may, Problem, show, useAnswer, useTitle } from "page/ui.js";
import { html } from "page/vendor/preact.js";
import { certain, count, interval, number, plural, sentence } from "page/words.js";

const ID = decodeURIComponent(location.pathname.split("/").filter(Boolean).at(-1) ?? "");
const NAMES = { none: "No map", champion: "Served before", challenger: "This map" };

/** @param {any} told */
const againstOf = (told) =>
  /** @type {[string, any][]} */ ([
    ["no map", told.against_none],
    ["the map that served", told.against_champion],
  ]).filter(([, one]) => one);

/** @param {{ told: any }} props */
function Evidence({ told }) {
  return html`<section class="card"><h2>Is it better?</h2><div class="scroll"><table>
    <thead><tr><th scope="col" class="text">Compared with</th><th scope="col">Evidence</th><th scope="col">Brier score, difference</th></tr></thead>
    <tbody>${againstOf(told).map(
      ([
        name,
        one,
      ]) => html`<tr><td class="text">${name}</td><td>${Math.abs(one.log10_e) < 4 ? number(one.e_value) : html`<${Power} log10=${one.log10_e} />`}</td>
      <td>${certain(one.brier_difference, one.lower, one.upper, true)} <small>${interval(one.lower, one.upper)}</small></td></tr>`,
    )}</tbody></table></div>
    <p class="soft">On events that the fit never saw. The Brier score is the mean squared distance between predictions and outcomes (0 or 1): a negative difference is an improvement. A map that is no better reaches an evidence of 20 in one case of twenty at most.</p></section>`;
}

/** @param {{ measure: any }} props */
function Measured({ measure }) {
  if (!measure) return html`<td>–</td>`;
  const known = measure.null_q95 !== null && measure.null_q95 !== undefined;
  const off = known && measure.value > measure.null_q95;
  return html`<td>${off && html`<strong title="more than chance explains">▲</strong> `}${certain(measure.value, measure.lower, measure.upper)}${measure.unit === "percent" ? " %" : ""}
    <br /><small>${interval(measure.lower, measure.upper)}${known ? `; by chance to ${number(measure.null_q95)}` : ""}</small></td>`;
}

/** @param {{ maps: any, measures: any[] }} props */
function Measures({ maps, measures }) {
  const shown = Object.entries(NAMES).filter(([name]) => maps[name]);
  const names = [...new Set(shown.flatMap(([name]) => Object.keys(maps[name].measures)))];
  const local = [
    ["mlce", "Worst local error (MLCE)"],
    ["mean_lce", "Mean local error"],
  ].filter(([key]) => shown.some(([name]) => maps[name].local?.[key]));
  return html`<details class="fold wide"><summary>Measures, before and after</summary><section class="card"><${TableExport} title="measures, before and after" /><h2 class="unseen">Measures</h2><div class="scroll"><table>
    <thead><tr><th scope="col" class="text">Measure</th>${shown.map(([name, title]) => html`<th scope="col">${title} (${maps[name].method})</th>`)}</tr></thead>
    <tbody>${names.map((name) => {
      const known = measures.find((each) => each.name === name);
      return html`<tr><td class="text" title=${known?.help}>${known?.title ?? name}</td>${shown.map(([of]) => html`<${Measured} measure=${maps[of].measures[name]} />`)}</tr>`;
    })}${local.map(([key, title]) => html`<tr><td class="text">${title}</td>${shown.map(([of]) => html`<${Measured} measure=${maps[of].local?.[key]} />`)}</tr>`)}</tbody></table></div>
    <p class="soft"><small>▲ more than chance explains; the 95% interval stands below each value.</small></p>
    ${shown.map(([name, title]) => html`<p class="soft">${title}: ${sentence(maps[name].describe)}${maps[name].verdict ? ` ${maps[name].verdict.sentence}` : ""}</p>`)}</section></details>`;
}

/** @param {{ segments: any[], leftOut: Record<string, number> }} props */
function Segments({ segments, leftOut }) {
  const shown = Object.entries(NAMES).filter(([name]) => segments[0][name]);
  return html`<section class="card"><h2>Segments, the worst before first</h2><div class="scroll"><table>
    <thead><tr><th scope="col" class="text">Segment</th><th scope="col">Events</th>${shown.map(([, title]) => html`<th scope="col">smCE, ${title.toLowerCase()}</th>`)}</tr></thead>
    <tbody>${segments.map((each) => html`<tr><td class="text"><bdi>${each.segment}</bdi></td><td>${count(each.n)} <small>${count(each.positives)} came true</small></td>${shown.map(([of]) => html`<td>${number(each[of].smce)}</td>`)}</tr>`)}</tbody></table></div>
    ${Object.entries(leftOut ?? {}).map(([reason, left]) => html`<p class="soft">Not compared: ${plural(left, "segment")}, ${reason}.</p>`)}</section>`;
}

/** @param {{ job: any }} props */
function Data({ job }) {
  const told = job.comparison;
  const parts = told
    ? /** @type {[string, any][]} */ ([
        ["Fitted on", told.fit],
        ["Compared on", told.held_out],
      ])
    : [];
  const options = Object.entries(job.options).map(([key, each]) => `${key} = ${each === null ? "found by itself" : each}`);
  return html`<section class="card"><h2>What it rests on</h2>
    ${parts.map(([name, part]) => html`<p>${name} ${count(part.n)} events, <${Time} at=${part.from} /> to <${Time} at=${part.to} />. <small>${part.data_hash}</small></p>`)}
    ${told?.fit.changed_at && html`<p>Calibration changed <${Time} at=${told.fit.changed_at} />: events since then were taken.</p>`}
    ${Object.entries(told?.fit.left_out ?? {}).map(([reason, left]) => html`<p>Left out: ${plural(Number(left), "event")}, ${reason}.</p>`)}
    <p>Options: ${options.join(", ") || "none"}.</p>
    ${job.links.artifact && html`<p><a href=${ROOT + job.links.artifact.slice(1)}>Its map (Arrow)</a></p>`}</section>`;
}

/** A figure, which never changes. @param {{ path: string }} props */
function Stored({ path }) {
  const { data: figure, failure } = useAnswer(path, 3600);
  return figure ? html`<${Figure} figure=${figure} />` : html`<${Problem} failure=${failure} />`;
}

/** @param {{ roles: string[] }} props */
function Refit({ roles }) {
  const { data: job, failure, again } = useAnswer(`v1/recalibrations/${encodeURIComponent(ID)}`, 2);
  const known = useAnswer(job?.comparison ? "v1/measures" : null, 3600);
  useTitle(job ? `${job.model} ${job.version}: refit` : "Refit");
  if (!job) return html`<${Problem} failure=${failure} />`;
  const { comparison: told, model, version } = job;
  const promote = async (/** @type {string} */ note) => {
    await sendJson(job.links.promotion.slice(1), { note });
    again();
  };
  const rollBack = async (/** @type {string} */ note) => {
    await sendJson(`v1/models/${modelPath(model)}/rollback`, { version, note });
    again();
  };
  const allowed = may(roles, "promote", model);
  const guard = told?.guard;
  return html`<${Problem} failure=${failure} stale />
    <div class="bar"><h1>${job.method} for <${ModelLink} model=${model} version=${version} /> <small>version <bdi>${version}</bdi></small></h1> <${State} state=${job.state} />
      <span class="right"></span>
      ${job.links.promotion && allowed && html`<${Ask} main label="Let it serve" title="Let this map serve" what=${html`<p>From now on the service and its clients apply it to predictions of <bdi>${model}</bdi> <bdi>${version}</bdi>${job.baseline ? " in place of the map that serves" : ", to which no map is applied now"}; replicas and clients have it within seconds. The detectors start anew, and open alerts of this version are resolved. A rollback takes it back.</p>${guard && html`<p>The guard passed it. ${sentence(guard.reasons.join("; "))}</p>`}`} note="Note for the audit trail" act=${promote} />`}
      ${job.state === "champion" && allowed && html`<${Ask} label="Roll back" title="Take this map back" what=${html`<p>${job.baseline ? html`The map that served before (<a href="${ROOT}recalibrations/${encodeURIComponent(job.baseline)}">${job.baseline}</a>) serves` : "Predictions are served without a map"} again, for <bdi>${model}</bdi> <bdi>${version}</bdi>. This map is never promoted again, and automatic promotion waits for somebody's word.</p>`} note="Note for the audit trail" act=${rollBack} />`}
      ${(job.links.promotion || job.state === "champion") && !allowed && html`<small>Changing what serves takes the role promote for ${model}.</small>`}
    </div>
    <p class=${`lead ${toneOf(job.state)}`}><${Progress} job=${job} /><bdi>${sentence(whatOf(job) || job.state)}</bdi>${told?.maps?.none && html`<br />${sentence(repairs(told.maps))}`}<br /><small>Asked for by <bdi>${job.actor}</bdi>${job.trigger !== "request" && ` (${job.trigger})`} <${ServiceTime} at=${job.requested_at} />${took(job) && `, took ${took(job)}`}</small></p>
    ${
      !underWay(job) &&
      html`<div class="grid">
      ${guard && html`<section class="card"><h2>${guard.passed ? "The guard passed it" : "The guard did not pass it"}</h2><ul>${guard.reasons.map((/** @type {string} */ reason) => html`<li>${reason}</li>`)}</ul>${(guard.notes ?? []).map((/** @type {string} */ note) => html`<p class="soft">${note}</p>`)}</section>`}
      ${told?.evidence && html`<${Evidence} told=${told.evidence} />`}
      ${told?.segments?.length > 0 && html`<${Segments} segments=${told.segments} leftOut=${told.segments_left_out} />`}
      ${Object.values(job.links.figures).map((path) => html`<${Stored} path=${String(path).slice(1)} />`)}
      ${told?.maps?.none && html`<${Measures} maps=${told.maps} measures=${known.data?.measures ?? []} />`}
      <${Data} job=${job} />
    </div>`
    }`;
}

show("recalibrations", Refit);
