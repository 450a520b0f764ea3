// A file of any number of lines, a page at a time: what is in sight is asked for.
import { fill, h } from "./dom.js";

const PAGE = 100, KEPT = 60, MOST_PX = 8e6;

export class Lines {
  // `load(first, count)` gives {total, lines}; `paint(button, line)` shows one; `open(number)` tells all of it.
  constructor({ load, paint, open, label }) {
    Object.assign(this, { load, paint, open });
    this.sheet = h("div", null);
    this.sheet.style.position = "relative";
    this.element = h("div.lines", { role: "group", "aria-label": label, tabindex: "0" }, this.sheet);
    this.counter = h("span.dim.number");
    this.pages = new Map();
    this.asked = new Set();
    this.shown = new Map();
    this.total = 0;
    this.atEnd = true;
    this.element.addEventListener("scroll", () => {
      const { scrollTop, clientHeight, scrollHeight } = this.element;
      this.atEnd = scrollTop + clientHeight >= scrollHeight - 4;
      this.soon();
    }, { passive: true });
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  get height() { return parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--line-height")) || 24; }

  soon() {
    if (!this.drawing) this.drawing = requestAnimationFrame(() => { this.drawing = 0; this.draw(); });
  }

  // The file has grown: its last page is not what it was. News that come together are one question.
  async grew() {
    if (this.growing) { this.more = true; return; }
    this.growing = true;
    try {
      do {
        this.more = false;
        await this.ask(Math.floor(this.total / PAGE), true);
      } while (this.more);
    } finally {
      this.growing = false;
    }
  }

  async ask(page, again = false) {
    if (this.asked.has(page) || (this.pages.has(page) && !again)) return;
    this.asked.add(page);
    try {
      const told = await this.load(page * PAGE, PAGE);
      this.pages.delete(page);
      this.pages.set(page, told.lines);
      while (this.pages.size > KEPT) this.pages.delete(this.pages.keys().next().value);
      const before = this.total;
      this.total = told.total;
      this.counter.textContent = `${told.total.toLocaleString("en")} ${told.total === 1 ? "line" : "lines"}`;
      if (before !== told.total && before % PAGE && Math.floor(before / PAGE) !== page) this.pages.delete(Math.floor(before / PAGE));
      this.resize();
    } catch { /* asked again when it is in sight again */ } finally {
      this.asked.delete(page);
    }
    this.draw();
  }

  resize() {
    const height = this.height;
    this.most = Math.floor(MOST_PX / height);
    this.base = Math.max(0, this.total - this.most); // browsers cannot scroll further
    this.sheet.style.height = `${(this.total - this.base) * height}px`;
    if (this.total < 14 || this.small) {
      this.small = this.total < 14; // no larger than what there is, until there is more
      this.element.style.height = this.small ? `${this.total * height + 6}px` : "";
    }
    if (this.atEnd) this.element.scrollTop = this.element.scrollHeight;
  }

  draw() {
    if (!this.element.isConnected || !this.total) return;
    const height = this.height;
    const top = this.element.scrollTop, rows = Math.ceil(this.element.clientHeight / height);
    const first = this.base + Math.max(0, Math.floor(top / height) - 6);
    const last = Math.min(this.total, this.base + Math.floor(top / height) + rows + 6);
    const keep = new Set();
    for (let number = first; number < last; number++) {
      const page = Math.floor(number / PAGE), line = this.pages.get(page)?.[number - page * PAGE];
      if (!line) this.ask(page, this.pages.has(page));
      keep.add(number);
      let there = this.shown.get(number);
      if (!there) {
        const element = h("button.line", { type: "button", tabindex: "-1", onclick: () => this.open(number) });
        this.sheet.append(element);
        there = { element, line: undefined };
        this.shown.set(number, there);
      }
      there.element.style.top = `${(number - this.base) * height}px`;
      if (there.line !== line) {
        there.line = line;
        there.element.classList.toggle("none", !line);
        if (line) this.paint(there.element, line); else fill(there.element, h("span"), h("span", null, "…"));
      }
    }
    for (const [number, { element }] of this.shown) if (!keep.has(number)) { element.remove(); this.shown.delete(number); }
  }
}
