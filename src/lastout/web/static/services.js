// The services: what is provisioned, and how the newest activation of each is.
import { fill, foreign, h } from "./dom.js";
import { listen, rows, store } from "./store.js";
import { ages, at, atFull, every } from "./time.js";
import { SAY, SERVICE_STATES } from "./words.js";

export const running = () => [...rows.services.values()].filter((one) => ["accepted", "starting", "running"].includes(one.state)).length;
export const stuck = () => [...rows.services.values()].filter((one) => one.state === "unproven" || one.state === "unreadable").length;

export class Services {
  constructor() {
    this.text = "";
    this.search = h("input", { type: "search", placeholder: "Search name or command", "aria-label": "Search services", "aria-keyshortcuts": "/", autocomplete: "off", spellcheck: "false" });
    this.search.addEventListener("input", () => { this.text = this.search.value.trim().toLowerCase(); this.draw(); });
    this.body = h("div");
    this.element = h("section.pane", { "aria-label": "Services" }, h("div.head", null, h("div.search", null, this.search)), h("div.scroll", { tabindex: "0" }, this.body));
  }

  open() {
    this.close = [listen((told) => { if (told.has("services") || told.has("ready")) this.draw(); }), every(() => ages(this.body))];
    this.draw();
  }
  shut() { for (const end of this.close ?? []) end(); }

  draw() {
    const found = [...rows.services.values()].filter((one) => !this.text || `${one.id} ${one.command}`.toLowerCase().includes(this.text));
    if (!found.length) {
      fill(this.body, h("div.blank", null, h("strong", null, !store.ready ? SAY.reading : this.text ? SAY.noMatch : SAY.noServices), this.text ? "" : SAY.noServicesHow));
      return;
    }
    found.sort((a, b) => (b.requested ?? 0) - (a.requested ?? 0) || (a.id < b.id ? -1 : 1));
    fill(this.body, h("ul.cards", null, found.map(card)));
    ages(this.body);
  }
}

function card(one) {
  const bad = one.state === "unproven" || one.state === "unreadable";
  const kind = bad || one.failed ? "bad" : one.state === "running" ? "ok" : "";
  return h(bad ? "li.card.bad" : "li.card", null,
    h("div.top", null, h("span.key", null, one.id), h(kind ? `span.tag.${kind}` : "span.tag", null, one.state === "ended" && one.failed ? "failed" : SERVICE_STATES[one.state] ?? one.state),
      one.manager === "systemd" && h("span.tag", null, "by systemd"), one.activation && h("span.dim.number", null, `activation ${one.activation}`)),
    one.command && h("p.mono", null, foreign(one.command)),
    one.requested && h("p", null, "Asked for ", h("span.number", { title: atFull(one.requested) }, at(one.requested)), !one.ended && [" (", h("span.number", { data: { since: one.requested } }), ")"],
      one.ended && [", ended ", h("span.number", { title: atFull(one.ended) }, at(one.ended))], one.run && [" · run ", h("a.number", { href: `#/run/${one.run}` }, one.run)]),
    one.why && h("p", null, foreign(one.why)), one.note && h("p", null, foreign(one.note)));
}
