// Questions and answers over the page, in the browser's own dialog.
import { $, fill, foreign, h, say } from "./dom.js";
import { get, post } from "./net.js";
import { KEYS, SAY, STAGE_SAYS, whatCancels, whatStops } from "./words.js";
import { listen, rows } from "./store.js";

const dialog = () => $("dialog");
export const isOpen = () => dialog().open;

function show(wide, ...children) {
  const box = dialog();
  box.className = wide ? "wide" : "";
  fill(box, ...children);
  if (!box.open) box.showModal();
  return box;
}
const title = (text) => h("h2", { id: "dialog-title" }, text);
const closing = (text = SAY.close) => h("button", { type: "button", onclick: () => dialog().close() }, text);

export function help() {
  show(false, title("Keys"), h("dl.keys", null, KEYS.map(([key, what]) => [
    h("dt", null, key.split(" ").map((part) => (part === "or" || part === "–" ? ` ${part} ` : [h("kbd", null, part), " "]))), h("dd", null, what),
  ])), h("div.buttons", null, closing()));
}

export async function wholeLine(what, query) {
  const text = h("pre", { tabindex: "0" }, "…");
  show(true, title("The line"), text, h("div.buttons", null, closing()));
  text.textContent = (await get(what, query)).text;
}

// Asks, does it, and tells what came of it. Nothing happens before the person says so.
function ask({ heading, subject, says, danger, doing, options, act, progress }) {
  const result = h("p", { role: "status" });
  const no = h("button", { type: "button", onclick: () => dialog().close() }, SAY.keep);
  const yes = h("button.sure", { type: "button" }, danger);
  const buttons = h("div.buttons", null, no, yes);
  const box = show(false, title(heading), h("div.subject", null, foreign(subject)), h("p", null, says), options, result, buttons);
  no.focus();
  let unlisten = () => {};
  box.addEventListener("close", () => unlisten(), { once: true });
  yes.addEventListener("click", async () => {
    yes.disabled = true;
    yes.textContent = doing;
    no.textContent = SAY.close;
    for (const field of options?.querySelectorAll?.("input") ?? []) field.disabled = true;
    if (progress) {
      const tell = () => { if (yes.isConnected) result.textContent = progress() ?? ""; };
      unlisten = listen(tell);
      tell();
    }
    let told;
    try {
      told = await act();
    } catch (error) {
      told = { settled: false, sentence: error.message || SAY.away };
    }
    unlisten();
    result.replaceChildren(h(told.settled ? "span.tag.ok" : "span.tag.bad", null, told.settled ? SAY.settled : SAY.unsettled), " ", foreign(told.sentence));
    say(told.sentence);
    if (!box.open) return;
    yes.remove();
    no.className = "";
    no.focus();
  });
}

export function askStop(row, maxStop) {
  const now = h("input", { type: "checkbox" });
  const reason = h("input", { type: "text", maxlength: "500", autocomplete: "off" });
  ask({
    heading: SAY.stopTitle, subject: row.command || row.id, says: whatStops(maxStop), danger: SAY.stop, doing: SAY.stopping,
    options: h("div", null, h("label", null, SAY.reason, reason), h("label.check", null, now, SAY.stopNow)),
    act: () => post(`stop/${row.id}`, { now: now.checked, reason: reason.value }),
    progress: () => STAGE_SAYS[rows.runs.get(row.id)?.stop?.stage],
  });
}

export function askCancel(job) {
  const now = h("input", { type: "checkbox" });
  ask({
    heading: SAY.cancelTitle, subject: job.title || job.id, says: whatCancels, danger: SAY.cancel, doing: SAY.cancelling,
    options: h("div", null, h("label.check", null, now, SAY.stopNow)),
    act: () => post(`cancel/${job.id}`, { now: now.checked }),
    progress: () => rows.jobs.get(job.id)?.progress,
  });
}
