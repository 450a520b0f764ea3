// The leases: who may write to which key, since when, and how the last one ended.
import { fill, foreign, h } from "./dom.js";
import { get } from "./net.js";
import { listen, rows, store } from "./store.js";
import { ages, at, atFull, every } from "./time.js";
import { count, LEASE_STATES, SAY, SECTIONS } from "./words.js";

const opened = new Set();

export const unproven = () => [...rows.leases.values()].filter((lease) => lease.state === "unproven").length;

export class Leases {
  constructor() {
    this.text = "";
    this.search = h("input", { type: "search", placeholder: "Search key or run", "aria-label": "Search leases", "aria-keyshortcuts": "/", autocomplete: "off", spellcheck: "false" });
    this.search.addEventListener("input", () => { this.text = this.search.value.trim().toLowerCase(); this.draw(); });
    this.body = h("div");
    this.element = h("section.pane", { "aria-label": "Leases" }, h("div.head", null, h("div.search", null, this.search)), h("div.scroll", { tabindex: "0" }, this.body));
  }

  open() {
    this.close = [listen((told) => { if (told.has("leases") || told.has("runs") || told.has("ready")) this.draw(); }), every(() => ages(this.body))];
    this.draw();
  }

  shut() { for (const end of this.close ?? []) end(); }

  draw() {
    const found = [...rows.leases.values()].filter((lease) => !this.text || `${lease.key} ${lease.run ?? ""}`.toLowerCase().includes(this.text));
    const order = (a, b) => (b.since ?? 0) - (a.since ?? 0);
    const held = found.filter((lease) => lease.state !== "free").sort((a, b) => (b.state === "unproven") - (a.state === "unproven") || order(a, b));
    const free = found.filter((lease) => lease.state === "free").sort(order);
    this.cards ??= new Map();
    if (!found.length) {
      fill(this.body, h("div.blank", null, h("strong", null, !store.ready ? SAY.reading : this.text ? SAY.noMatch : SAY.noLeases), this.text ? "" : SAY.noLeasesHow));
      return;
    }
    const part = (name, leases) => leases.length > 0 && [h("h2.title", null, `${SECTIONS[name]} · ${leases.length}`), h("ul.cards", null, leases.map((lease) => this.card(lease)))];
    const focus = document.activeElement?.closest?.("[data-key]")?.dataset.key;
    fill(this.body, part("held", held), part("free", free));
    ages(this.body);
    if (focus !== undefined) this.cards.get(focus)?.element.querySelector("button")?.focus();
  }

  card(lease) {
    const run = lease.run ? rows.runs.get(lease.run) : null;
    const before = this.cards.get(lease.id);
    if (before && before.lease === lease && before.run === run) return before.element;
    const made = this.make(lease, run);
    this.cards.set(lease.id, { lease, run, element: made });
    return made;
  }

  make(lease, run) {
    // No Python stays to write down that the run has begun: its record says so.
    const over = run && ["ended", "not-started"].includes(run.state);
    const state = lease.state === "reserved" && run?.root ? "committed" : lease.state;
    const history = h("ol.history", { hidden: true });
    const button = h("button.plain.push", { type: "button", "aria-expanded": "false", onclick: () => show(!opened.has(lease.id)) }, "History");
    const show = async (on) => {
      if (on) opened.add(lease.id); else opened.delete(lease.id);
      button.setAttribute("aria-expanded", String(on));
      history.hidden = !on;
      if (!on) return;
      const entries = await get("lease", { key: lease.id });
      fill(history, entries.map((entry) => h("li", null, h("span.number.dim", null, atFull(entry.at)), h("span.number.dim", null, `epoch ${entry.epoch}`),
        h("span", null, h("strong", null, entry.event), " ", entry.sentence && foreign(entry.sentence), " ", entry.run && h("a.number", { href: `#/run/${entry.run}` }, entry.run)))));
    };
    if (opened.has(lease.id)) show(true);
    return h(lease.state === "unproven" ? "li.card.bad" : "li.card", { data: { key: lease.id } },
      h("div.top", null, h("span.key", null, foreign(lease.key)),
        over ? h("span.tag", { title: SAY.heldOver }, "its run is over") : h(lease.state === "unproven" ? "span.tag.bad" : lease.state === "free" ? "span.tag" : "span.tag.ok", null, LEASE_STATES[state] ?? state),
        h("span.dim.number", null, `epoch ${lease.epoch}`), button),
      lease.state !== "free" && h("p", null, "Held by run ", h("a.number", { href: `#/run/${lease.run}` }, lease.run), run && [" · ", h("span.mono", null, foreign(run.command.slice(0, 80)))],
        lease.since && [" · since ", h("span.number", { title: atFull(lease.since) }, at(lease.since)), " (", h("span.number", { data: { since: lease.since } }), ")"], lease.writer && ` · written by pid ${lease.writer}`),
      lease.verdict && h("p", null, lease.state === "free" ? "The last one: " : "", h(lease.verdict.settled ? "strong" : "strong", null, lease.verdict.kind), `, ${lease.verdict.sentence}`, lease.state === "free" && lease.since ? [" · ", h("span.number", { title: atFull(lease.since) }, at(lease.since))] : ""),
      lease.waiting.length > 0 && h("p", null, `${count(lease.waiting.length, "process", "processes")} ${lease.waiting.length === 1 ? "waits" : "wait"} for it: ${lease.waiting.map((one) => `pid ${one.pid}`).join(", ")}`),
      history);
  }
}
