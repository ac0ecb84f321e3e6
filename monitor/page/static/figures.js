/* Figures by kind. A report in one file holds those alone that it shows: each adds itself. */

import { html } from "page/vendor/preact.js";

/** @type {Record<string, (props: any) => any>} */
export const FIGURES = {};

/** @param {{ figure: any }} props */
export function Figure({ figure }) {
  const Kind = FIGURES[figure.kind];
  return html`<section class=${figure.wide ? "card wide" : "card"}><h2><bdi>${figure.title}</bdi></h2>
    ${figure.text && html`<p class="soft"><bdi>${figure.text}</bdi></p>`}<${Kind} ...${figure} /></section>`;
}
