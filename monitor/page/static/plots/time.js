/* Values over time. All plots of a page share the range of time and the place of the pointer. */

import { Numbers } from "page/parts.js";
import { html, useEffect, useRef } from "page/vendor/preact.js";
import { number, utcTime } from "page/words.js";

const { uPlot } = /** @type {any} */ (globalThis);
const SYNC = "time";
const HEIGHT = 190;
const COLOURS = ["--data", "--second", "--third", "--fourth"];

/**
 * @typedef {{ at: number, text: string, tone?: string }} Mark  what happened, at milliseconds
 * @typedef {{ name: string, values: (number | null)[], lower?: (number | null)[], upper?: (number | null)[], dashed?: boolean }} Line
 */

/** @param {string} name */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** @param {Mark[]} marks */
function drawMarks(marks) {
  return (/** @type {any} */ plot) => {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    let [end, row] = [Number.NEGATIVE_INFINITY, 0];
    for (const { at, text, tone } of marks.toSorted((one, other) => one.at - other.at)) {
      const x = plot.valToPos(at / 1000, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = ctx.fillStyle = colour(tone ? `--${tone}` : "--soft");
      ctx.setLineDash([3 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      row = x < end ? row + 1 : 0;
      ctx.fillText(text, x + 3 * ratio, bbox.top + (11 + 13 * row) * ratio);
      end = x + ctx.measureText(text).width + 8 * ratio;
    }
    ctx.restore();
  };
}

/** @param {Line[]} lines @param {(value: number | null) => string} written */
function seriesOf(lines, written) {
  const series = /** @type {any[]} */ ([
    {
      value: (/** @type {any} */ _, /** @type {number | null} */ seconds) => (seconds === null ? "–" : utcTime(seconds * 1000)),
      label: "At",
    },
  ]);
  const bands = /** @type {any[]} */ ([]);
  lines.forEach((line, place) => {
    const stroke = colour(COLOURS[place % COLOURS.length]);
    const told = (/** @type {any} */ _, /** @type {number | null} */ value, /** @type {number} */ __, /** @type {number | null} */ at) =>
      at === null || line.lower?.[at] === undefined || line.lower[at] === null
        ? written(value)
        : `${written(value)} (${written(line.lower[at])} to ${written(line.upper?.[at] ?? null)})`;
    const points = { show: line.values.length < 40 && !line.dashed };
    series.push({ label: line.name, stroke, width: 1.6, dash: line.dashed ? [5, 4] : undefined, points, value: told });
    if (line.lower && line.upper) {
      const edge = { width: 0, stroke: "transparent", points: { show: false }, class: "edge" };
      series.push({ ...edge, label: "upper" }, { ...edge, label: "lower" });
      bands.push({ series: [series.length - 2, series.length - 1], fill: `${stroke}33` });
    }
  });
  return { series, bands };
}

/**
 * @param {{ title: string, times: number[], lines: Line[], range: [number, number], onRange: (range: [number, number] | null) => void,
 *   marks?: Mark[], height?: number, written?: (value: number | null) => string, least?: number }} props
 *   times in milliseconds, ascending
 */
export function TimePlot({ title, times, lines, range, onRange, marks = [], height = HEIGHT, written = number, least }) {
  const place = useRef(/** @type {any} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const make = () => {
      plot.current?.destroy();
      const { series, bands } = seriesOf(lines, written);
      const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
      const columns = lines.flatMap((line) => (line.lower && line.upper ? [line.values, line.upper, line.lower] : [line.values]));
      plot.current = new uPlot(
        {
          width: place.current.clientWidth,
          height,
          series,
          bands,
          cursor: { sync: { key: SYNC }, drag: { x: true, y: false, setScale: false } },
          scales: {
            x: { min: range[0] / 1000, max: range[1] / 1000 },
            y: { range: (/** @type {any} */ _, /** @type {number} */ min, /** @type {number} */ max) => padded(min, max, least) },
          },
          axes: [
            axis,
            { ...axis, size: 56, values: (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks.map((tick) => written(tick)) },
          ],
          hooks: {
            draw: [drawMarks(marks)],
            setSelect: [
              (/** @type {any} */ made) => {
                const { left, width } = made.select;
                if (width > 4) onRange([made.posToVal(left, "x") * 1000, made.posToVal(left + width, "x") * 1000]);
                made.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
              },
            ],
          },
        },
        [times.map((at) => at / 1000), ...columns],
        place.current,
      );
    };
    make();
    const resized = new ResizeObserver(() => plot.current.setSize({ width: place.current.clientWidth, height }));
    resized.observe(place.current);
    dark.addEventListener("change", make);
    return () => {
      resized.disconnect();
      dark.removeEventListener("change", make);
      plot.current.destroy();
      plot.current = null;
    };
  }, [times, lines, marks, range[0], range[1]]);
  const heads = ["UTC", ...lines.flatMap((line) => (line.lower ? [line.name, "from", "to"] : [line.name]))];
  const rows = () =>
    times.map((at, row) => [
      utcTime(at),
      ...lines.flatMap((line) =>
        (line.lower && line.upper ? [line.values, line.lower, line.upper] : [line.values]).map((values) => written(values[row])),
      ),
    ]);
  return html`<figure onDblClick=${() => onRange(null)}>
    <h3>${title}</h3>
    <div ref=${place} role="img" aria-label=${`${title}; the numbers are below`}></div>
    <${Numbers} title=${title} heads=${heads} rows=${rows} />
  </figure>`;
}

/** @param {number | null} min @param {number | null} max @param {number} [least] @returns {[number, number]} */
function padded(min, max, least) {
  const lower = least === undefined ? (min ?? 0) : Math.min(least, min ?? least);
  const upper = max ?? lower + 1;
  const pad = (upper - lower || Math.abs(upper) || 1) * 0.08;
  return [least === undefined ? lower - pad : lower, upper + pad];
}
