/* Where among two features predictions are too high or too low: one map, or several on one scale of colours. */

import { FIGURES } from "page/figures.js";
import { Numbers } from "page/parts.js";
import { html, useEffect, useRef, useState } from "page/vendor/preact.js";
import { count, number } from "page/words.js";

/** A colour of the style sheet as red, green, blue. @param {string} name */
function colour(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim().slice(1);
  return [0, 2, 4].map((at) => Number.parseInt(text.slice(at, at + 2), 16));
}

/**
 * @typedef {{ name: string, points: (number | null)[] }} Map  errors in points, row by row from below
 * @param {{ title: string, x: any, y: any, near: number[], enough: number, reach: number, maps: Map[], quiet?: boolean }} props
 *   near: how many events are near each place; where there are fewer than `enough`, colours are paler; `quiet`: all is chance
 */
function Plane({ title, x, y, near, enough, reach, maps, quiet = false }) {
  const [shown, setShown] = useState("");
  const size = Math.sqrt(near.length);
  const at = (/** @type {any} */ axis, /** @type {number} */ place) => axis.from + ((axis.to - axis.from) * place) / (size - 1);
  const told = (/** @type {number} */ place, /** @type {Map} */ map) => {
    const where = `${x.name} ${number(at(x, place % size))}, ${y.name} ${number(at(y, Math.floor(place / size)))}`;
    const error = map.points[place];
    if (error === null || near[place] < enough) return `${where}: too few events near (${count(near[place])})`;
    return `${where}: ${number(Math.abs(error))} points too ${error > 0 ? "high" : "low"}, of ${count(near[place])} events near`;
  };
  const clear = near.flatMap((events, place) => (events >= enough ? [place] : []));
  const worst = (/** @type {Map} */ map) =>
    clear.toSorted((one, other) => Math.abs(map.points[other] ?? 0) - Math.abs(map.points[one] ?? 0)).slice(0, 12);
  return html`<div class="grid">${maps.map((map) => html`<${Heat} map=${map} size=${size} near=${near} enough=${enough} reach=${reach} quiet=${quiet} x=${x} y=${y} told=${told} onShow=${setShown} />`)}</div>
    <figure><figcaption aria-live="polite">${shown || html`<span class="key first">too high</span> <span class="key second">too low</span> up to ${number(reach)} points; paler: few events are near.`}</figcaption>
    <${Numbers} title="the worst places" heads=${["map", "place"]} rows=${() => maps.flatMap((map) => worst(map).map((place) => [map.name || title, told(place, map)]))} /></figure>`;
}

/** @param {any} props */
function Heat({ map, size, near, enough, reach, quiet, x, y, told, onShow }) {
  const canvas = useRef(/** @type {any} */ (null));
  useEffect(() => {
    const dark = matchMedia("screen and (prefers-color-scheme: dark)");
    const draw = () => {
      const [high, low] = [colour("--data"), colour("--second")];
      const context = canvas.current.getContext("2d");
      const picture = context.createImageData(size, size);
      map.points.forEach((/** @type {number | null} */ error, /** @type {number} */ place) => {
        const row = size - 1 - Math.floor(place / size);
        const share = Math.min(1, Math.abs(error ?? 0) / reach) * Math.min(1, near[place] / enough) ** 2;
        picture.data.set([...((error ?? 0) > 0 ? high : low), Math.round((quiet ? 90 : 255) * share)], 4 * (row * size + (place % size)));
      });
      context.putImageData(picture, 0, 0);
    };
    draw();
    dark.addEventListener("change", draw);
    return () => dark.removeEventListener("change", draw);
  }, [map]);
  const move = (/** @type {any} */ event) => {
    const { left, top, width, height } = canvas.current.getBoundingClientRect();
    const column = Math.min(size - 1, Math.floor(((event.clientX - left) / width) * size));
    const row = Math.min(size - 1, Math.floor(((event.clientY - top) / height) * size));
    onShow(told((size - 1 - row) * size + column, map));
  };
  return html`<figure>${map.name && html`<h3><bdi>${map.name}</bdi></h3>`}
    <canvas class="heat" ref=${canvas} width=${size} height=${size} role="img" aria-label=${`${map.name || "Errors"} over ${x.name} and ${y.name}; the worst places are listed below`} onMouseMove=${move} onMouseLeave=${() => onShow("")}></canvas>
    <p class="soft"><small>Across: <bdi>${x.name}</bdi>, ${number(x.from)} to ${number(x.to)}. Up: <bdi>${y.name}</bdi>, ${number(y.from)} to ${number(y.to)}.</small></p></figure>`;
}

FIGURES.plane = Plane;
