/* Measures over time, on one range that all share. */

import { FIGURES } from "page/figures.js";
import { TimePlot } from "page/plots/time.js";
import { html, useMemo, useState } from "page/vendor/preact.js";
import { number, percent } from "page/words.js";

/** @param {{ times: number[], range: [number, number], plots: any[] }} props */
function OverTime({ times, range, plots }) {
  const [shown, setShown] = useState(range);
  const onRange = (/** @type {[number, number] | null} */ chosen) => setShown(chosen ?? range);
  const shared = useMemo(() => ({ range: shown, onRange }), [shown]);
  return html`<p class="soft"><small>Drag to look closer, double-click to go back.</small></p>
    <div class="grid">${plots.map(
      (plot) =>
        html`<${TimePlot} title=${plot.title} times=${times} lines=${plot.lines} shared=${shared} least=${plot.least} written=${plot.share ? percent : number} />`,
    )}</div>`;
}

FIGURES.time = OverTime;
