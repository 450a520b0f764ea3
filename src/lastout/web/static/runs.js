// The list of runs: what needs a look first, then what stops, runs, and is over.
import { foreign, h, say, setText } from "./dom.js";
import { List } from "./list.js";
import { listen, rows, store } from "./store.js";
import { share } from "./ladder.js";
import { ages, at, every, span } from "./time.js";
import { count, howEnded, SAY, SECTIONS, STATES, why } from "./words.js";

const SECTION_OF = { unproven: "look", lost: "look", stopping: "stopping", starting: "running", running: "running", ended: "over", "not-started": "over" };
const FILTERS = [["all", "All"], ["live", "Live"], ["look", "Needs a look"], ["over", "Over"]];

export const needsLook = () => [...rows.runs.values()].filter((row) => SECTION_OF[row.state] === "look").length;
export const live = () => [...rows.runs.values()].filter((row) => SECTION_OF[row.state] === "running" || row.state === "stopping").length;

export class Runs {
  constructor() {
    this.filter = "all";
    this.text = "";
    this.list = new List({ height: rowHeight, make, update, label: "Runs" });
    this.search = h("input", { type: "search", placeholder: "Search command, key or id", "aria-label": "Search runs", "aria-keyshortcuts": "/", autocomplete: "off", spellcheck: "false" });
    this.search.addEventListener("input", () => { this.text = this.search.value.trim().toLowerCase(); this.draw(); });
    this.search.addEventListener("keydown", (event) => { if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); this.list.move(0); } });
    this.chips = FILTERS.map(([name, text]) => h("button", { type: "button", "aria-pressed": String(name === "all"), data: { filter: name }, onclick: () => this.only(name) }, text));
    this.blank = h("div.blank", { role: "status" });
    this.element = h("section.pane", { "aria-label": "Runs" }, h("div.head", null, h("div.search", null, this.search), h("div.chips", { role: "group", "aria-label": "Show" }, this.chips)), this.blank, this.list.element);
  }

  open() {
    this.close = [listen((told) => { if (told.has("runs") || told.has("ready")) this.draw(); }), every(() => ages(this.list.element))];
    this.draw();
  }

  shut() { for (const end of this.close ?? []) end(); }

  only(name) {
    this.filter = name;
    for (const chip of this.chips) chip.setAttribute("aria-pressed", String(chip.dataset.filter === name));
    this.list.element.scrollTop = 0;
    this.draw();
  }

  mark(id) {
    this.marked = id;
    this.draw();
  }

  draw() {
    const parts = { look: [], stopping: [], running: [], over: [] };
    const wanted = { all: null, live: ["stopping", "running"], look: ["look"], over: ["over"] }[this.filter];
    const words = this.text.split(/\s+/).filter(Boolean);
    for (const row of rows.runs.values()) {
      const part = SECTION_OF[row.state] ?? "running";
      if (wanted && !wanted.includes(part)) continue;
      if (words.length) {
        row.hay ??= `${row.command} ${row.key ?? ""} ${row.id} ${STATES[row.state]} ${row.root ?? ""}`.toLowerCase();
        if (!words.every((word) => row.hay.includes(word))) continue;
      }
      parts[part].push(row);
    }
    const items = [];
    for (const [name, found] of Object.entries(parts)) {
      if (!found.length) continue;
      found.sort((a, b) => (name === "over" ? (b.ended ?? b.began ?? 0) - (a.ended ?? a.began ?? 0) : (b.began ?? 0) - (a.began ?? 0)) || (a.id < b.id ? 1 : -1));
      items.push({ id: `section ${name}`, section: `${SECTIONS[name]} · ${found.length.toLocaleString("en")}` });
      for (const row of found) items.push(this.item(row));
    }
    this.blank.hidden = items.length > 0;
    if (!items.length) {
      const [first, then] = !store.ready ? [SAY.reading, SAY.readingHow] : words.length || wanted ? [SAY.noMatch, ""] : [SAY.nothingRuns, SAY.nothingRunsHow];
      this.blank.replaceChildren(h("strong", null, first), then);
    }
    this.list.element.hidden = !items.length;
    this.list.set(items);
  }

  // The same object for the same row: the list paints only what is another one.
  item(row) {
    const marked = row.id === this.marked;
    this.items ??= new WeakMap();
    let item = this.items.get(row);
    if (!item || item.marked !== marked) this.items.set(row, (item = { id: row.id, row, marked }));
    return item;
  }
}

const wide = matchMedia("(max-width: 720px)");
const rowHeight = () => (wide.matches ? 78 : 62);

export function make() {
  const name = h("bdi.name"), about = h("span.about"), when = h("span.when");
  const element = h("a.row", { role: "listitem" }, h("span.dot"), h("span.what", null, name, about), when);
  Object.assign(element, { parts: { name, about, when } });
  return element;
}

export function update(element, { row, marked }) {
  const { name, about, when } = element.parts;
  element.href = `#/run/${row.id}`;
  element.dataset.state = row.state;
  element.classList.toggle("over", row.state === "ended" || row.state === "not-started");
  if (marked) element.setAttribute("aria-current", "true"); else element.removeAttribute("aria-current");
  setText(name, row.command || "(its command is not in the record)");
  const over = row.took !== null || row.state === "ended" || row.state === "not-started";
  about.replaceChildren(...[
    row.key && h("span.tag.info", { title: "the key that it may write to" }, foreign(row.key)),
    row.state === "stopping" && h("span.tag.warn", null, why(row.stop)),
    row.left > 0 && over && row.stopped > 0 && h("span.tag", null, `${count(row.stopped, "leftover")} stopped`),
    row.failed > 0 && h("span.tag.bad", null, `${row.failed} of ${count(row.commands, "command")} failed`),
    row.failed === 0 && row.commands > 0 && h("span", null, count(row.commands, "command")),
    row.missing > 0 && h("span.tag.warn", null, `${count(row.missing, "line")} lost`),
    h("span.number", null, row.id),
  ].filter(Boolean));
  when.replaceChildren(...(over || row.state === "lost" || row.state === "unproven" ? ended(row) : running(row)));
  element.setAttribute("aria-label", `${row.command || row.id}, ${STATES[row.state] ?? row.state}${row.key ? `, key ${row.key}` : ""}`);
  element.querySelector(".thin")?.remove();
  if (row.state === "stopping" && row.stop?.graces) {
    const bar = h("i");
    element.append(h("span.thin", { data: { stage: row.stop.stage } }, bar));
    slide(bar, row);
  }
}

function ended(row) {
  const [text, kind] = howEnded(row);
  return [h(`b.${kind}`, null, text), row.took !== null ? h("span.number", { title: at(row.ended) }, `${span(row.took)} · ${at(row.ended)}`) : h("span.number", null, at(row.began))];
}
function running(row) {
  return [h(`b.${row.state === "stopping" ? "warn" : "ok"}`, null, STATES[row.state]), h("span.number", { data: { since: row.began ?? 0 } })].map((part) => { if (part.dataset.since) ages(h("div", null, part)); return part; });
}

// One timer for all bars: a hundred stops at a time are no hundred timers.
const sliding = new Map();
let slider = 0;
function slide(bar, row) {
  sliding.set(bar, row);
  bar.style.transform = `scaleX(${share(row.stop)})`;
  slider ||= setInterval(() => {
    for (const [one, its] of sliding) {
      if (!one.isConnected || its.stop.ended !== null) sliding.delete(one);
      else if (!document.hidden) one.style.transform = `scaleX(${share(its.stop)})`;
    }
    if (!sliding.size) { clearInterval(slider); slider = 0; }
  }, 200);
}

export function tell(before, row) {
  const name = row.command.slice(0, 60) || row.id;
  if (row.state === "running" && (!before || before.state === "starting")) say(`${name} has started`);
  else if (before && before.state !== row.state) say(`${name} is ${STATES[row.state]}`);
}
