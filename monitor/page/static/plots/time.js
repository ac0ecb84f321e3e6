/* Values over time. All plots of a page share the range of time, the place of the pointer, and the marks of what happened. */

import { Numbers } from "page/parts.js";
import { html, useEffect, useRef } from "page/vendor/preact.js";
import { isUtc, number, percent, timeText, zone } from "page/words.js";

const { uPlot } = /** @type {any} */ (globalThis);
const SYNC = "time";
const HEIGHT = 190;
/** The height of plots that stand beside others. */
export const LOW = 150;
const DAY_S = 86_400;
const MOST_LABELS = 10; // marks beyond which there are lines alone
const MOST_LETTERS = 24; // of a label: as many as a phone has room for
// Lines differ by their strokes as well as by their colours.
const COLOURS = ["--data", "--second", "--third", "--fourth"];
const DASHES = [[], [9, 3], [2, 3], [9, 3, 2, 3]];

/**
 * @typedef {{ at: number, text: string, tone?: string }} Mark  what happened, at milliseconds
 * @typedef {{ from: number, to: number, tone?: string }} Shade  a range in which something happened, in milliseconds
 * @typedef {{ name: string, values: (number | null)[], lower?: (number | null)[], upper?: (number | null)[], level?: boolean }} Line
 *   level: a line to compare the others with
 * @typedef {{ range: [number, number], onRange: (range: [number, number] | null) => void, marks?: Mark[], shades?: Shade[],
 *   at?: number | null, onPick?: (at: number) => void }} Shared  what all plots of a page share; `at`: the moment that is picked
 */

/** @param {string} name */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** @param {any} plot @param {number} at */
const placeOf = (plot, at) => plot.valToPos(at / 1000, "x", true);

/** @param {any} plot @param {Shade[]} shades */
function drawShades(plot, shades) {
  const { ctx, bbox } = plot;
  ctx.save();
  for (const { from, to, tone } of shades) {
    ctx.fillStyle = tone ? `${colour(`--${tone}`)}14` : `${colour("--warn")}2e`;
    const left = Math.max(placeOf(plot, from), bbox.left);
    const width = Math.min(placeOf(plot, to), bbox.left + bbox.width) - left;
    if (width > 0) ctx.fillRect(left, bbox.top, Math.max(width, 2), bbox.height);
  }
  ctx.restore();
}

/** @param {any} plot @param {Mark[]} marks */
function drawMarks(plot, marks) {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio || 1;
  const right = bbox.left + bbox.width;
  const inside = marks
    .map(({ text, ...mark }) => ({
      ...mark,
      text: text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS - 1)}…` : text,
      x: placeOf(plot, mark.at),
    }))
    .filter(({ x }) => x >= bbox.left && x <= right)
    .toSorted((one, other) => one.x - other.x);
  ctx.save();
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "left";
  let [end, row, said] = [Number.NEGATIVE_INFINITY, 0, ""];
  for (const { x, text, tone } of inside) {
    ctx.strokeStyle = ctx.fillStyle = colour(tone ? `--${tone}` : "--soft");
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    if (inside.length > MOST_LABELS || (text === said && x < end)) continue;
    const width = ctx.measureText(text).width;
    const left = x + width + 6 * ratio > right ? x - width - 3 * ratio : x + 3 * ratio;
    row = left < end ? row + 1 : 0;
    ctx.fillText(text, left, bbox.top + (11 + 13 * row) * ratio);
    [end, said] = [left + width + 5 * ratio, text];
  }
  ctx.restore();
}

/** @param {Line[]} lines @param {(value: number | null) => string} written */
function seriesOf(lines, written) {
  const at = (/** @type {any} */ _, /** @type {number | null} */ s) => (s === null ? "" : timeText(s * 1000));
  const series = /** @type {any[]} */ ([{ value: at, label: "At" }]);
  const bands = /** @type {any[]} */ ([]);
  let place = 0;
  for (const line of lines) {
    const stroke = colour(line.level ? "--bad" : COLOURS[place % COLOURS.length]);
    const dash = line.level ? [4, 4] : DASHES[place % DASHES.length];
    if (!line.level) place += 1;
    const told = (/** @type {any} */ _, /** @type {number | null} */ value, /** @type {number} */ __, /** @type {number | null} */ row) =>
      row === null
        ? ""
        : line.lower?.[row] === undefined || line.lower[row] === null
          ? written(value)
          : `${written(value)} (${written(line.lower[row])} to ${written(line.upper?.[row] ?? null)})`;
    const points = { show: line.values.length < 40 && !line.level };
    // Intervals and levels are not renewed with each value: lines go on between those that were.
    series.push({ label: line.name, stroke, width: line.level ? 1.2 : 1.7, dash, points, value: told, spanGaps: true });
    if (line.lower && line.upper) {
      const edge = { width: 0, stroke: "transparent", points: { show: false }, class: "edge", spanGaps: true };
      series.push({ ...edge, label: "upper" }, { ...edge, label: "lower" });
      bands.push({ series: [series.length - 2, series.length - 1], fill: `${stroke}2e` });
    }
  }
  return { series, bands };
}

/** Times of ticks: a date at midnight, the time of day otherwise. @param {any} _ @param {number[]} ticks */
function timesOf(_, ticks) {
  const days = ticks.length > 1 && ticks[1] - ticks[0] >= DAY_S - 7200;
  let day = "";
  return ticks.map((tick) => {
    const at = new Date(tick * 1000);
    const date = at.toLocaleDateString(undefined, { day: "numeric", month: "short", timeZone: zone });
    const time = at.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: zone });
    const text = days ? date : date === day ? time : `${time}\n${date}`;
    day = date;
    return text;
  });
}

/** How high the labels of times are, in pixels: a date below a time of day takes a second line. @param {any} _ @param {string[] | null} labels */
const heightOf = (_, labels) => (labels?.some((label) => label.includes("\n")) ? 50 : 34);

/** How far from the left of a plot an event is, in pixels. @param {any} plot @param {PointerEvent} event */
function leftOf({ over }, event) {
  const { left, width } = over.getBoundingClientRect();
  return Math.max(0, Math.min(width, event.clientX - left));
}

/** Let a finger that moves sideways select what a mouse selects by dragging; one that moves up or down scrolls. @param {any} plot */
function selectByTouch(plot) {
  const { over } = plot;
  let start = /** @type {number | null} */ (null);
  const select = (/** @type {number} */ one, /** @type {number} */ other, ends = false) =>
    plot.setSelect({ left: Math.min(one, other), width: Math.abs(one - other), top: 0, height: over.clientHeight }, ends);
  over.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
    start = event.pointerType === "touch" && event.isPrimary ? leftOf(plot, event) : null;
  });
  over.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    if (start === null) return;
    plot.setCursor({ left: leftOf(plot, event), top: event.offsetY });
    select(start, leftOf(plot, event));
  });
  over.addEventListener("pointerup", (/** @type {PointerEvent} */ event) => {
    if (start !== null) select(start, leftOf(plot, event), true);
    start = null;
  });
  over.addEventListener("pointercancel", () => {
    if (start !== null) select(0, 0);
    start = null;
  });
}

/**
 * @param {{ title: string, times: number[], lines: Line[], shared: Shared, height?: number, least?: number, most?: number, whole?: boolean,
 *   written?: (value: number | null) => string, ticks?: (value: number) => string }} props
 *   times in milliseconds, ascending; least, most: what the axis of values holds in any case; whole: ticks are whole numbers
 */
export function TimePlot({ title, times, lines, shared, height = HEIGHT, least, most, whole = false, written = number, ticks = written }) {
  const place = useRef(/** @type {any} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const now = useRef(shared);
  now.current = shared;
  const { range, marks, shades, at } = shared;
  useEffect(() => {
    const dark = matchMedia("screen and (prefers-color-scheme: dark)");
    let dragged = false;
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
          // Ticks are at the hours of the zone.
          ...(isUtc && { tzDate: (/** @type {number} */ at) => uPlot.tzDate(new Date(at * 1000), "UTC") }),
          // Where the page has just been scrolled, uPlot takes a click for a drag, and would stop it.
          cursor: { sync: { key: SYNC }, drag: { x: true, y: false, setScale: false, click: () => undefined } },
          scales: {
            x: { min: now.current.range[0] / 1000, max: now.current.range[1] / 1000 },
            y: { range: (/** @type {any} */ _, /** @type {number} */ from, /** @type {number} */ to) => padded(from, to, least, most) },
          },
          axes: [
            { ...axis, values: timesOf, space: 64, size: heightOf },
            {
              ...axis,
              size: 58,
              values: (/** @type {any} */ _, /** @type {number[]} */ values) => values.map((value) => ticks(value)),
              ...(whole && { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] }),
            },
          ],
          hooks: {
            drawClear: [(/** @type {any} */ made) => drawShades(made, now.current.shades ?? [])],
            draw: [
              (/** @type {any} */ made) => {
                const { marks = [], at = null } = now.current;
                drawMarks(made, at === null ? marks : [...marks, { at, text: "here", tone: "link" }]);
              },
            ],
            setSelect: [
              (/** @type {any} */ made) => {
                const { left, width } = made.select;
                dragged = width > 4;
                if (dragged) now.current.onRange([made.posToVal(left, "x") * 1000, made.posToVal(left + width, "x") * 1000]);
                made.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
              },
            ],
          },
        },
        [times.map((time) => time / 1000), ...columns],
        place.current,
      );
      selectByTouch(plot.current);
      plot.current.over.addEventListener("pointerdown", () => {
        dragged = false;
      });
      plot.current.over.addEventListener("click", (/** @type {PointerEvent} */ event) => {
        if (!dragged && times.length) now.current.onPick?.(times[plot.current.posToIdx(leftOf(plot.current, event))]);
      });
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
  }, [times, lines]);
  useEffect(() => plot.current.setScale("x", { min: range[0] / 1000, max: range[1] / 1000 }), [marks, shades, range[0], range[1], at]);
  const isExact = written === number || written === percent; // evidence is written, and saved, as a power of ten
  const heads = ["At", ...lines.flatMap((line) => (line.lower ? [line.name, "from", "to"] : [line.name]))];
  const rows = () =>
    times.map((time, row) => [
      { text: timeText(time), exact: new Date(time).toISOString() },
      ...lines.flatMap((line) =>
        (line.lower && line.upper ? [line.values, line.lower, line.upper] : [line.values]).map((values) =>
          isExact ? { text: written(values[row]), exact: values[row] ?? "" } : written(values[row]),
        ),
      ),
    ]);
  return html`<figure>
    <h3>${title}</h3>
    <div class="plot" ref=${place} role="img" aria-label=${`${title}; the numbers are below`}></div>
    <${Numbers} title=${title} heads=${heads} rows=${rows} />
  </figure>`;
}

/** @param {number | null} min @param {number | null} max @param {number} [least] @param {number} [most] @returns {[number, number]} */
function padded(min, max, least, most) {
  const lower = Math.min(least ?? Number.POSITIVE_INFINITY, min ?? least ?? 0);
  const upper = Math.max(most ?? Number.NEGATIVE_INFINITY, max ?? most ?? lower + 1);
  const pad = (upper - lower || Math.abs(upper) || 1) * 0.08;
  return [lower === least ? lower : lower - pad, upper + pad];
}
