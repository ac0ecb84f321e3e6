/* Before a change and since. */

import { withQuery } from "page/api.js";
import { iso, PATH } from "page/model_view.js";
import { Time } from "page/parts.js";
import { Places } from "page/plots/witness.js";
import { measured, reported, SideBySide } from "page/spans.js";
import { Problem, useAnswer } from "page/ui.js";
import { html } from "page/vendor/preact.js";

const UNITS = /** @type {Record<string, number>} */ ({ s: 1e3, m: 60e3, h: 3600e3, d: 86400e3, w: 7 * 86400e3 });
const MARGIN = 0.98; // of the longest window: it moves on while one looks

/** How far back predictions are kept at least: the longest window. @param {string[]} windows such as 24h */
export const keptOf = (windows) =>
  Math.max(
    0,
    ...windows.map((name) => {
      const [, value, unit] = /^(\d+)([smhdw])$/.exec(name) ?? [];
      return value ? Number(value) * UNITS[unit] : 0;
    }),
  ) * MARGIN;

/**
 * As long before a change as has passed since: as far as predictions are kept, and else what the alert has.
 * @param {{ version: string, segment: string, served: string | null, at: number, settled: number, kept: number, document: any }} props
 *   served: "true" for predictions as the map that serves makes them; at: the change, in milliseconds; kept: how far back from `settled`; document: of the alert, or null
 */
export function BeforeAndSince({ version, segment, served, at, settled, kept, document }) {
  const earliest = settled - kept;
  const query = (/** @type {number} */ from, /** @type {number | null} */ to) =>
    withQuery(`${PATH}/diagrams`, { version, segment, served, from: iso(from), to: to && iso(to) });
  const since = useAnswer(at < settled ? query(Math.max(at, earliest), null) : null, 60);
  const before = useAnswer(at - earliest > kept / 20 ? query(Math.max(2 * at - settled, earliest), at) : null, 60);
  const spans = [
    ...(before.data
      ? [measured("Before the change", before.data)]
      : document?.before
        ? [reported("Before the change", document.before)]
        : []),
    ...(since.data ? [measured("Since the change", since.data)] : document?.after ? [reported("Since the change", document.after)] : []),
  ];
  return html`<section class="card wide"><h2>Before and since <${Time} at=${iso(at)} /></h2>
    <${Problem} failure=${since.failure ?? before.failure} />
    ${at < earliest && html`<p class="soft">Predictions from then are not kept any more: what is shown as since then begins later.</p>`}
    ${spans.length > 0 && html`<${SideBySide} spans=${spans}>${since.data?.diagrams && html`<h3>Where it is wrong since</h3><${Places} places=${since.data.diagrams.places} />`}</${SideBySide}>`}
  </section>`;
}
