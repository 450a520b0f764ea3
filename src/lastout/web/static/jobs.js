// The jobs: what runs in the background, what waits, what asks, and each one's feed.
import { askCancel, wholeLine } from "./dialogs.js";
import { fill, foreign, h, say, setText } from "./dom.js";
import { Lines } from "./lines.js";
import { List } from "./list.js";
import { get, post } from "./net.js";
import { listen, rows, store } from "./store.js";
import { ages, at, atFull, clockTime, every } from "./time.js";
import { SAY, SECTIONS, STATES } from "./words.js";

export const asking = () => [...rows.jobs.values()].filter((job) => job.questions.length || job.lost).length;
export const active = () => [...rows.jobs.values()].filter((job) => job.state !== "ended").length;

const shownState = (job) => (job.state === "ended" ? (job.failed ? "failed" : "ended") : job.lost ? "lost" : job.questions.length ? "asks" : job.state);
const sectionOf = (job) => (job.state === "ended" ? "over" : job.lost ? "look" : job.questions.length ? "asks" : job.state === "queued" ? "queued" : "running");
const FILTERS = [["all", "All"], ["live", "Live"], ["over", "Over"]];

export class Jobs {
  constructor() {
    this.filter = "all";
    this.text = "";
    this.list = new List({ height: () => (matchMedia("(max-width: 720px)").matches ? 78 : 62), make, update, label: "Jobs" });
    this.search = h("input", { type: "search", placeholder: "Search title, name, asker or id", "aria-label": "Search jobs", "aria-keyshortcuts": "/", autocomplete: "off", spellcheck: "false" });
    this.search.addEventListener("input", () => { this.text = this.search.value.trim().toLowerCase(); this.draw(); });
    this.chips = FILTERS.map(([name, text]) => h("button", { type: "button", "aria-pressed": String(name === "all"), data: { filter: name }, onclick: () => this.only(name) }, text));
    this.blank = h("div.blank", { role: "status" });
    this.element = h("section.pane", { "aria-label": "Jobs" }, h("div.head", null, h("div.search", null, this.search), h("div.chips", { role: "group", "aria-label": "Show" }, this.chips)), this.blank, this.list.element);
  }

  open() {
    this.close = [listen((told) => { if (told.has("jobs") || told.has("ready")) this.draw(); }), every(() => ages(this.list.element))];
    this.draw();
  }
  shut() { for (const end of this.close ?? []) end(); }
  mark(id) { this.marked = id; this.draw(); }

  only(name) {
    this.filter = name;
    for (const chip of this.chips) chip.setAttribute("aria-pressed", String(chip.dataset.filter === name));
    this.draw();
  }

  draw() {
    const parts = { asks: [], look: [], running: [], queued: [], over: [] };
    for (const job of rows.jobs.values()) {
      const part = sectionOf(job);
      if ((this.filter === "live" && part === "over") || (this.filter === "over" && part !== "over")) continue;
      if (this.text && !`${job.title} ${job.name ?? ""} ${job.by} ${job.id} ${job.agent ?? ""}`.toLowerCase().includes(this.text)) continue;
      parts[part].push(job);
    }
    const items = [];
    for (const [name, found] of Object.entries(parts)) {
      if (!found.length) continue;
      found.sort((a, b) => (name === "queued" ? (a.place ?? 0) - (b.place ?? 0) : (b.ended ?? b.queued ?? 0) - (a.ended ?? a.queued ?? 0)));
      items.push({ id: `section ${name}`, section: `${SECTIONS[name]} · ${found.length}` });
      for (const job of found) items.push({ id: job.id, row: job, marked: job.id === this.marked });
    }
    this.blank.hidden = items.length > 0;
    if (!items.length) this.blank.replaceChildren(h("strong", null, !store.ready ? SAY.reading : this.text || this.filter !== "all" ? SAY.noMatch : SAY.noJobs), this.text ? "" : SAY.noJobsHow);
    this.list.element.hidden = !items.length;
    this.list.set(items);
  }
}

function make() {
  const name = h("bdi.name"), about = h("span.about"), when = h("span.when");
  const element = h("a.row", { role: "listitem" }, h("span.dot"), h("span.what", null, name, about), when);
  Object.assign(element, { parts: { name, about, when } });
  return element;
}

function update(element, { row: job, marked }) {
  const { name, about, when } = element.parts, state = shownState(job);
  element.href = `#/job/${job.id}`;
  element.dataset.state = state;
  element.classList.toggle("over", state === "ended");
  if (marked) element.setAttribute("aria-current", "true"); else element.removeAttribute("aria-current");
  setText(name, job.title || job.id);
  fill(about, job.name && h("span.tag.info", null, foreign(job.name)), job.by && h("span", null, "for ", foreign(job.by)),
    job.questions.length > 0 && h("span.tag.info", null, "asks for an answer"), job.lost && h("span.tag.bad", null, "its runner is gone"),
    job.state !== "ended" && job.progress && h("span.mono", null, foreign(job.progress)), job.state === "ended" && job.failed && job.reason && h("span.tag.bad", null, foreign(job.reason)),
    h("span.number", null, job.id));
  fill(when, ended(job, state));
  element.setAttribute("aria-label", `${job.title || job.id}, ${STATES[state] ?? state}`);
}

function ended(job, state) {
  const kind = { ended: "soft", failed: "bad", lost: "bad", running: "ok", asks: "warn" }[state] ?? "soft";
  const since = job.state === "ended" ? h("span.number", null, at(job.ended)) : h("span.number", { data: { since: job.began ?? job.started ?? job.queued ?? 0 } });
  const parts = [h(`b.${kind}`, null, state === "queued" && job.place ? `queued, ${job.place} before it` : STATES[state] ?? state), since];
  ages(h("div", null, since));
  return parts;
}

export function tellJob(before, job) {
  const name = job.title.slice(0, 60);
  if (job.questions.length > (before?.questions.length ?? 0)) say(`${name} asks for an answer`);
  else if (before && shownState(before) !== shownState(job)) say(`${name} is ${STATES[shownState(job)]}`);
}

export class JobPage {
  constructor(id, { back }) {
    this.id = id;
    this.heading = h("h1");
    this.states = h("div.states");
    this.cancel = h("button.danger", { type: "button", "aria-keyshortcuts": "s", onclick: () => this.stop() }, "End it…");
    this.questions = h("div");
    this.progress = h("p.progress", { role: "status" });
    this.facts = h("dl.facts");
    this.text = h("textarea", { rows: "2", "aria-label": "Message to the agent", placeholder: "Message to the agent: its next turn" });
    this.sent = h("span.dim", { role: "status" });
    this.send = h("section.block", { "aria-label": "Message", hidden: true }, this.text, h("div.buttons", null, this.sent, h("button", { type: "button", onclick: () => this.message() }, "Send")));
    this.lines = new Lines({
      label: "Feed", load: (from, many) => get(`feed/${id}`, { from, count: many }),
      paint: (element, line) => {
        element.classList.toggle("bad", Boolean(line.bad));
        fill(element, h("span.at", null, clockTime(line.at)), h("span.event", null, foreign(line.event)), h("span", null, foreign(line.text)));
      },
      open: (number) => wholeLine(`fact/${id}`, { from: number }),
    });
    this.element = h("div.detail", { role: "region", "aria-label": "Job" }, h("button.plain.back", { type: "button", onclick: back }, "‹ ", SAY.back),
      h("div.lead", null, this.heading, h("div.do", null, this.cancel)), this.states, this.questions, this.progress, this.facts, this.send,
      h("section.block", { "aria-label": "Feed" }, h("header", null, h("h2", null, "Feed"), this.lines.counter), this.lines.element));
  }

  open() {
    this.close = [listen((told) => { if (told.get("jobs")?.has(this.id) || told.has("ready")) { this.draw(); this.lines.grew(); } }), every(() => ages(this.element))];
    this.draw();
    this.lines.grew();
  }
  shut() { for (const end of this.close ?? []) end(); }

  stop() {
    const job = rows.jobs.get(this.id);
    if (job && job.state !== "ended") askCancel(job);
  }

  draw() {
    const job = rows.jobs.get(this.id);
    if (!job) { if (store.ready && !this.heading.textContent) setText(this.heading, SAY.noJob); this.cancel.hidden = true; return; }
    const state = shownState(job);
    setText(this.heading, job.title || job.id);
    this.cancel.hidden = job.state === "ended";
    fill(this.states, h("span.state", { data: { state } }, h("span.dot"), STATES[state] ?? state), job.name && h("span.tag.info", null, foreign(job.name)),
      job.why && h("span.tag", null, job.why), job.reason && h("span.tag.bad", null, foreign(job.reason)), job.lost && h("span", null, "Its runner is gone; it is looked after when somebody asks for the jobs."));
    this.send.hidden = job.kind !== "agent" || job.state === "ended";
    this.progress.hidden = !job.progress || job.state === "ended";
    setText(this.progress, job.progress ?? "");
    const facts = [
      ["Job", h("span.number", null, job.id)], ["Asked by", foreign(job.by || "not said")], job.agent && ["Agent", foreign(job.agent)],
      ["Turn", job.turn || "not begun"], ["Directory", h("span.mono", null, foreign(job.cwd))], ["Queued", atFull(job.queued)], job.ended && ["Ended", atFull(job.ended)],
      job.waiting > 0 && ["Messages waiting", job.waiting], job.run && ["Run", h("a.number", { href: `#/run/${job.run}` }, job.run)],
      job.state === "idle" && job.idle && ["Kept until", clockTime(job.idle)],
      ...Object.entries(job.labels).map(([name, value]) => [name, foreign(value)]),
    ];
    fill(this.facts, facts.filter(Boolean).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
    const key = JSON.stringify(job.questions);
    if (key !== this.asked) { this.asked = key; fill(this.questions, job.questions.map((question) => this.question(question))); }
  }

  async message() {
    const text = this.text.value.trim();
    if (!text) return;
    try {
      await post(`message/${this.id}`, { text });
      this.text.value = "";
      setText(this.sent, "It is in the inbox.");
    } catch (error) {
      setText(this.sent, error.message || SAY.away);
    }
  }

  question(question) {
    const said = h("p", { role: "status" });
    const reply = async (body) => {
      for (const part of box.querySelectorAll("button, input")) part.disabled = true;
      try { await post(`answer/${this.id}`, { question: question.id, ...body }); said.textContent = "Answered."; } catch (error) {
        said.textContent = error.message;
        for (const part of box.querySelectorAll("button, input")) part.disabled = false;
      }
    };
    // What is to be filled in goes with an answer, never with a refusal.
    const names = question.fields.length ? question.fields : question.kind === "input" ? [""] : [];
    const inputs = names.map((name) => h("input", { type: "text", autocomplete: "off", maxlength: "4000", "aria-label": name || "Answer" }));
    const refuses = (choice) => choice.meaning === "deny" || choice.meaning === "cancel";
    const choose = (choice) => reply({ choice: choice.id, values: refuses(choice) ? [] : inputs.map((input) => input.value) });
    const box = h("section.question", { "aria-label": "Question" }, h("p", null, foreign(question.prompt)),
      inputs.map((input, i) => h("label", null, names[i] && foreign(names[i]), input)),
      h("div.buttons", null, question.choices.length
        ? question.choices.map((choice) => h(refuses(choice) ? "button.danger" : "button", { type: "button", onclick: () => choose(choice) }, foreign(choice.label)))
        : h("button", { type: "button", onclick: () => reply({ choice: null, values: inputs.map((input) => input.value) }) }, "Answer")), said);
    return box;
  }
}
