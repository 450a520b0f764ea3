// A list of any length: only what can be seen has elements, in the order in which it stands.
import { h } from "./dom.js";

export class List {
  // `make(item)` gives an element, `update(element, item)` brings it up to date.
  constructor({ height, make, update, label, sectionHeight = 38 }) {
    Object.assign(this, { height, make, update, sectionHeight });
    this.sheet = h("div.sheet", { role: "list", "aria-label": label });
    this.element = h("div.scroll", null, this.sheet);
    this.items = [];
    this.tops = new Float64Array(1);
    this.shown = new Map();
    this.current = null;
    this.element.addEventListener("scroll", () => this.soon(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("focusin", (event) => {
      const row = event.target.closest("[data-id]");
      if (row) { this.current = row.dataset.id; this.rove(); }
    });
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  set(items) {
    this.items = items;
    const row = this.height();
    const tops = new Float64Array(items.length + 1);
    this.places = new Map();
    for (let i = 0, at = 0; i < items.length; i++) {
      tops[i] = at;
      at += items[i].section ? this.sectionHeight : row;
      tops[i + 1] = at;
      this.places.set(items[i].id, i);
    }
    this.tops = tops;
    this.draw();
  }

  soon() {
    if (!this.drawing) this.drawing = requestAnimationFrame(() => { this.drawing = 0; this.draw(); });
  }

  find(y) {
    let low = 0, high = this.items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] <= y) low = middle + 1; else high = middle;
    }
    return low;
  }

  draw() {
    this.sheet.style.height = `${this.tops[this.items.length] + 16}px`;
    const top = this.element.scrollTop, bottom = top + (this.element.clientHeight || 900);
    const first = Math.max(0, this.find(top) - 4), last = Math.min(this.items.length, this.find(bottom) + 5);
    const keep = new Set();
    const focused = document.activeElement?.closest?.("[data-id]");
    const held = focused && this.sheet.contains(focused) ? this.places.get(focused.dataset.id) : undefined;
    let next = this.sheet.firstElementChild;
    const put = (i) => {
      const item = this.items[i];
      keep.add(item.id);
      let there = this.shown.get(item.id);
      if (!there) {
        const element = item.section ? h("div.section", { role: "presentation" }) : this.make(item);
        if (!item.section) element.dataset.id = item.id;
        there = { element, item: null, top: -1 };
        this.shown.set(item.id, there);
      }
      if (there.item !== item) {
        if (item.section) there.element.textContent = item.section;
        else {
          this.update(there.element, item);
          there.element.tabIndex = item.id === this.current ? 0 : -1;
        }
        there.item = item;
      }
      if (!item.section) { there.element.setAttribute("aria-posinset", i + 1); there.element.setAttribute("aria-setsize", this.items.length); }
      if (there.top !== this.tops[i]) { there.top = this.tops[i]; there.element.style.top = `${there.top}px`; }
      if (there.element === next) next = next.nextElementSibling;
      else this.sheet.insertBefore(there.element, next);
    };
    if (held !== undefined && held < first) put(held);
    for (let i = first; i < last; i++) put(i);
    if (held !== undefined && held >= last) put(held);
    for (const [id, { element }] of this.shown) if (!keep.has(id)) { element.remove(); this.shown.delete(id); }
    if (held !== undefined && document.activeElement !== focused) focused.focus({ preventScroll: true }); // it was moved
    this.rove();
  }

  // One row can be reached with Tab, the others from there with the arrows.
  rove() {
    let some = null;
    for (const { element, item } of this.shown.values()) {
      if (item.section) continue;
      element.tabIndex = item.id === this.current ? 0 : -1;
      some ??= element;
      if (item.id === this.current) some = element;
    }
    if (some) some.tabIndex = 0;
  }

  key(event) {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 8, PageUp: -8, Home: -1e9, End: 1e9 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.move(step);
  }

  move(step) {
    const indexes = this.items.flatMap((item, i) => (item.section ? [] : [i]));
    if (!indexes.length) return;
    const at = indexes.indexOf(this.places.get(this.current));
    const to = at < 0 ? 0 : Math.max(0, Math.min(indexes.length - 1, at + step));
    this.focus(this.items[indexes[to]].id);
  }

  focus(id) {
    const i = this.places.get(id);
    if (i === undefined) return;
    this.current = id;
    const { scrollTop, clientHeight } = this.element;
    if (this.tops[i] < scrollTop + 38) this.element.scrollTop = this.tops[i] - 42;
    else if (this.tops[i + 1] > scrollTop + clientHeight) this.element.scrollTop = this.tops[i + 1] - clientHeight + 8;
    this.draw();
    this.shown.get(id)?.element.focus({ preventScroll: true });
  }
}
