/* A question before something is changed: what will happen, a note, and whether it went well. */
import { html, useEffect, useRef, useState } from "page/vendor/preact.js";
import { sentence } from "page/words.js";

/**
 * A button that asks first.
 * @param {{ label: string, title: string, what: any, note?: string, act: (note: string, answers: FormData) => Promise<void>, main?: boolean }} props
 *   what: what will happen, with further fields if there are any: their answers go by their names;
 *   note: the label of the note's field; without it none is asked for
 */
export function Ask({ label, title, what, note, act, main = false }) {
  const [open, setOpen] = useState(false);
  return html`<button type="button" class=${main ? "main" : ""} onClick=${() => setOpen(true)}>${label}</button>
    ${open && html`<${Question} title=${title} what=${what} note=${note} label=${label} act=${act} onClose=${() => setOpen(false)} />`}`;
}

/** @param {any} props */
function Question({ title, what, note, label, act, onClose }) {
  const dialog = useRef(/** @type {any} */ (null));
  const text = useRef(/** @type {any} */ (null));
  const [wrong, setWrong] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => dialog.current.showModal(), []);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await act(text.current?.value ?? "", new FormData(/** @type {HTMLFormElement} */ (event.target)));
      onClose();
    } catch (error) {
      setWrong(sentence(/** @type {Error} */ (error).message));
      setBusy(false);
    }
  };
  return html`<dialog ref=${dialog} onClose=${onClose} aria-labelledby="asked">
    <form onSubmit=${submit}>
      <h2 id="asked">${title}</h2>
      <div>${what}</div>
      ${note && html`<label>${note}<textarea ref=${text} rows="2" maxlength="1000"></textarea></label>`}
      ${wrong && html`<p class="banner" role="alert">${wrong}</p>`}
      <div class="bar"><button class="main" disabled=${busy}>${label}</button>
        <button type="button" onClick=${() => dialog.current.close()}>Cancel</button></div>
    </form>
  </dialog>`;
}
