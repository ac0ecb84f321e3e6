/* Lines over numbers on a log scale, in panels: delays by budget, local errors by gamma. */

import { FIGURES } from "page/figures.js";
import { Numbers } from "page/parts.js";
import { html, useState } from "page/vendor/preact.js";
import { number } from "page/words.js";

const WIDTH = 360;
const HEIGHT = 220;
const LEFT = 52;
const BELOW = 34;
const TOP = 8;
const STYLES = ["first", "second", "third", "fourth"];

/** @typedef {{ name: string, values: (number | null)[], upper?: (number | null)[] }} Line  upper: up to where a bar reaches */

/** Some four round numbers. @param {number} from @param {number} to */
function ticksOf(from, to) {
  const rough = (to - from) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough) ?? rough;
  return Array.from({ length: Math.floor(to / step) - Math.ceil(from / step) + 1 }, (_, at) => (Math.ceil(from / step) + at) * step);
}

/** @param {{ panel: { title: string, lines: Line[], chance?: (number | null)[], from: number }, at: number[], axis: string, written: (value: number | null) => string }} props */
function Panel({ panel, at, axis, written }) {
  const [shown, setShown] = useState(/** @type {number | null} */ (null));
  const known = /** @type {number[]} */ (
    panel.lines.flatMap((line) => [...line.values, ...(line.upper ?? []), ...(panel.chance ?? [])]).filter((value) => value !== null)
  );
  const [low, high] = [Math.min(panel.from, ...known), Math.max(panel.from + 1e-9, ...known) * 1.05];
  const [first, last] = [Math.log(at[0]), Math.log(at[at.length - 1])];
  const x = (/** @type {number} */ place) => LEFT + 14 + ((Math.log(at[place]) - first) / (last - first || 1)) * (WIDTH - LEFT - 28);
  const y = (/** @type {number} */ value) => TOP + (1 - (value - low) / (high - low)) * (HEIGHT - TOP - BELOW);
  const path = (/** @type {(number | null)[]} */ values) =>
    values
      .map((value, place) =>
        value === null ? "" : `${place && values[place - 1] !== null ? "L" : "M"}${x(place).toFixed(1)} ${y(value).toFixed(1)}`,
      )
      .join("");
  const told = (/** @type {number} */ place) =>
    `${axis} ${number(at[place])}: ${panel.lines.map((line) => `${line.name} ${written(line.values[place])}${line.upper ? ` (${written(line.upper[place])})` : ""}`).join(", ")}`;
  return html`<figure><h3><bdi>${panel.title}</bdi></h3>
    <svg class="diagram" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="100%" role="img" aria-label=${`${panel.title}; the numbers are below`} onMouseLeave=${() => setShown(null)}>
      ${ticksOf(low, high).map((tick) => html`<line class="rule" x1=${LEFT} x2=${WIDTH} y1=${y(tick)} y2=${y(tick)} /><text x=${LEFT - 5} y=${y(tick) + 4} text-anchor="end">${written(tick)}</text>`)}
      ${at.map((value, place) => html`<text x=${x(place)} y=${HEIGHT - BELOW + 15} text-anchor="middle">${number(value, 2)}</text>`)}
      <text x=${(LEFT + WIDTH) / 2} y=${HEIGHT - 4} text-anchor="middle">${axis}</text>
      ${panel.chance && html`<path class="band" d=${bandOf(panel.chance, x, y)} />`}
      ${panel.lines.map((line, number_) => {
        const style = STYLES[number_ % STYLES.length];
        return html`<g class=${`stroke ${style}`}>
          ${line.upper?.map((upper, place) => upper !== null && line.values[place] !== null && html`<line x1=${x(place) + 3 * number_} x2=${x(place) + 3 * number_} y1=${y(Number(line.values[place]))} y2=${y(upper)} />`)}
          <path d=${path(line.values)} />
          ${line.values.map((value, place) => value !== null && html`<circle cx=${x(place)} cy=${y(value)} r="3.2" />`)}</g>`;
      })}
      ${at.map((_, place) => html`<rect class="catch" x=${x(place) - 14} y="0" width="28" height=${HEIGHT} onMouseEnter=${() => setShown(place)} />`)}
    </svg>
    <figcaption aria-live="polite">${
      shown === null
        ? panel.lines.map((line, number_) => html`<span class=${`key ${STYLES[number_ % STYLES.length]}`}>${line.name}</span> `)
        : told(shown)
    }</figcaption>
    <${Numbers} title=${panel.title} heads=${[axis, ...panel.lines.flatMap((line) => (line.upper ? [line.name, `${line.name}, 90%`] : [line.name]))]}
      rows=${() => at.map((value, place) => [number(value), ...panel.lines.flatMap((line) => (line.upper ? [written(line.values[place]), written(line.upper[place])] : [written(line.values[place])]))])} /></figure>`;
}

/** From 0 up to what chance shows. @param {(number | null)[]} chance @param {(place: number) => number} x @param {(value: number) => number} y */
function bandOf(chance, x, y) {
  const places = chance.flatMap((value, place) => (value === null ? [] : [place]));
  if (!places.length) return "";
  const edge = places.map((place) => `${x(place).toFixed(1)} ${y(Number(chance[place])).toFixed(1)}`).join("L");
  return `M${x(places[0]).toFixed(1)} ${y(0).toFixed(1)}L${edge}L${x(places[places.length - 1]).toFixed(1)} ${y(0).toFixed(1)}Z`;
}

/** @param {number | null} hours */
function asTime(hours) {
  if (hours === null || hours === 0) return hours === null ? "–" : "0";
  if (hours < 1) return `${number(60 * hours, 2)} min`;
  return hours < 72 ? `${number(hours, 2)} h` : `${number(hours / 24, 2)} d`;
}

/** @param {{ panels: any[], at: number[], axis: string, unit: string }} props  unit: "hours", or numbers */
function Lines({ panels, at, axis, unit }) {
  return html`<div class="grid">${panels.map((panel) => html`<${Panel} panel=${panel} at=${at} axis=${axis} written=${unit === "hours" ? asTime : number} />`)}</div>`;
}

FIGURES.lines = Lines;
