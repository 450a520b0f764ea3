// All records, also those of long ago: asked of the server's index, a page at a time.
import { fill, h } from "./dom.js";
import { get } from "./net.js";
import { make, update } from "./runs.js";
import { listen, rows } from "./store.js";
import { ages, every } from "./time.js";
import { SAY } from "./words.js";

const STATES = [["", "All"], ["ended", "Ended"], ["unproven", "Not proven"], ["not-started", "Not started"], ["open", "Live or not known"]];

export class History {
  constructor() {
    this.state = "";
    this.search = h("input", { type: "search", placeholder: "Search commands in all records", "aria-label": "Search all records", "aria-keyshortcuts": "/", autocomplete: "off", spellcheck: "false" });
    this.search.addEventListener("input", () => { clearTimeout(this.typing); this.typing = setTimeout(() => this.look(), 200); });
    this.chips = STATES.map(([name, text]) => h("button", { type: "button", "aria-pressed": String(name === ""), data: { state: name }, onclick: () => this.only(name) }, text));
    this.body = h("div.rows");
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.look(this.until) }, "Older ones");
    this.said = h("p.dim", { role: "status" });
    this.element = h("section.pane", { "aria-label": "History" }, h("div.head", null, h("div.search", null, this.search), h("div.chips", { role: "group", "aria-label": "Show" }, this.chips)),
      h("div.scroll", { tabindex: "0" }, this.said, this.body, this.more));
  }

  open() {
    this.close = [listen((told) => { for (const id of told.get("runs") ?? []) this.paint(id); }), every(() => ages(this.body))];
    this.look();
  }
  shut() {
    this.asking?.abort();
    for (const end of this.close ?? []) end();
  }

  // What is live is on the page already, and told better there.
  paint(id) {
    const row = rows.runs.get(id);
    const element = row && this.shown?.get(id);
    if (element) update(element, { row });
  }

  only(name) {
    this.state = name;
    for (const chip of this.chips) chip.setAttribute("aria-pressed", String(chip.dataset.state === name));
    this.look();
  }

  async look(until) {
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    this.said.textContent = this.body.childElementCount ? "" : SAY.reading;
    try {
      const told = await get("history", { text: this.search.value.trim() || null, state: this.state || null, until }, { signal: asking.signal });
      if (!until) { fill(this.body); this.shown = new Map(); }
      for (const row of told.rows) {
        const element = make();
        update(element, { row });
        this.shown.set(row.id, element);
        this.paint(row.id);
        this.body.append(element);
      }
      this.until = told.until;
      this.more.hidden = !told.until;
      this.said.textContent = this.body.childElementCount ? "" : SAY.noMatch;
    } catch (error) {
      if (!asking.signal.aborted) this.said.textContent = error.message || SAY.away;
    }
  }
}
