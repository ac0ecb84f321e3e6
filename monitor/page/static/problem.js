/* What a browser gets instead of what it opened: the document itself says it, so that it is read without scripts too. */

import { show } from "page/ui.js";
import { html, useEffect } from "page/vendor/preact.js";

const [title, detail] = ["h1", "p"].map((tag) => document.querySelector(`main ${tag}`)?.textContent ?? "");
const help = document.querySelector("main a")?.getAttribute("href") ?? "";

/** @param {{ roles: string[] }} props */
function ProblemPage({ roles }) {
  const known = roles.length > 0;
  useEffect(() => {
    // The address shows what it could not show before somebody logged in.
    if (known && title.startsWith("401 ")) location.reload();
  }, [known]);
  return html`<h1>${title}</h1><p class="lead"><bdi>${detail}</bdi></p><p><a href=${help}>What this means</a></p>`;
}

show("problem", ProblemPage, true);
