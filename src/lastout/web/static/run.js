// One run: what it is, its stop, its processes, its story, its picture, its record.
import { askStop, wholeLine } from "./dialogs.js";
import { fill, foreign, h, setText } from "./dom.js";
import { Ladder } from "./ladder.js";
import { Lines } from "./lines.js";
import { get } from "./net.js";
import { picture } from "./picture.js";
import { listen, rows, store } from "./store.js";
import { ages, atFull, every, seconds, span } from "./time.js";
import { paintTree } from "./tree.js";
import { count, howEnded, SAY, STATES, STATE_SAYS, why } from "./words.js";

export class RunPage {
  constructor(id, { back }) {
    this.id = id;
    this.command = h("h1");
    this.states = h("div.states");
    this.stopButton = h("button.danger", { type: "button", "aria-keyshortcuts": "s", onclick: () => this.stop() }, "Stop…");
    this.facts = h("dl.facts");
    this.headline = h("p.headline", { hidden: true });
    this.ladder = new Ladder();
    this.treeHead = h("span.dim");
    this.tree = h("div.scrolls");
    this.treeBlock = h("section.block", { "aria-label": "Processes", hidden: true }, h("header", null, h("h2", null, "Processes"), this.treeHead), this.tree);
    this.claims = h("ol.claims");
    this.more = h("button.plain.push", { type: "button", hidden: true, "aria-pressed": "false", onclick: () => this.details() }, "Details");
    this.commands = h("section.block", { "aria-label": "Commands of the agent", hidden: true });
    this.picture = h("div.scrolls", { tabindex: "0", "aria-label": "Time line" });
    this.lines = new Lines({
      label: "Lines of the record", load: (from, many) => get(`lines/${id}`, { from, count: many }),
      paint: (element, line) => fill(element, h("span.at", null, seconds(line.at)), h("span.event", null, foreign(line.event)), h("span", null, foreign(line.text))),
      open: (number) => wholeLine(`line/${id}`, { from: number }),
    });
    this.element = h("div.detail", { role: "region", "aria-label": "Run" },
      h("button.plain.back", { type: "button", onclick: back }, "‹ ", SAY.back),
      h("div.lead", null, this.command, h("div.do", null, this.stopButton)), this.states, this.headline, this.ladder.element, this.treeBlock, this.facts,
      h("section.block", { "aria-label": "What happened" }, h("header", null, h("h2", null, "What happened"), h("span.dim", null, "every claim with its grade"), this.more), this.claims),
      this.commands,
      h("section.block", { "aria-label": "Time line" }, h("header", null, h("h2", null, "Time line")), this.picture),
      h("section.block", { "aria-label": "Record" }, h("header", null, h("h2", null, "Record"), this.lines.counter), this.lines.element),
    );
  }

  open() {
    this.close = [
      listen((told) => {
        if (told.get("runs")?.has(this.id) || told.has("ready")) this.draw();
        if (told.has("watched") && store.watched?.run === this.id) this.watched();
      }),
      every(() => { ages(this.element); }),
    ];
    this.draw();
    this.tell();
  }

  shut() {
    this.gone = true;
    for (const end of this.close ?? []) end();
  }

  stop() {
    const row = rows.runs.get(this.id);
    if (row && !this.stopButton.hidden) askStop(row, this.story?.facts?.max_stop_ms);
  }

  watched() {
    const { size, tree } = store.watched;
    this.paintTree(tree);
    if (size !== this.size) { this.size = size; this.tell(); }
  }

  paintTree(tree) {
    this.treeBlock.hidden = !tree;
    if (tree) setText(this.treeHead, paintTree(this.tree, tree));
  }

  draw() {
    const row = rows.runs.get(this.id) ?? this.past;
    if (!row) return;
    const alive = ["running", "stopping", "starting", "unproven", "lost"].includes(row.state);
    setText(this.command, row.command || this.id);
    this.stopButton.hidden = !alive;
    setText(this.stopButton, row.state === "lost" || row.state === "unproven" ? "Try to end it…" : "Stop…");
    const [text, kind] = howEnded(row);
    fill(this.states,
      h("span.state", { data: { state: row.state } }, h("span.dot"), STATES[row.state] ?? row.state),
      h("span", null, STATE_SAYS[row.state] ?? ""),
      !alive && row.state !== "not-started" && h(`span.tag.${kind}`, null, text),
      row.why && h("span.tag.bad", null, foreign(row.why)),
      row.stop && !row.stop.graces && h("span.tag", null, why(row.stop)),
      row.verdict && h("span.tag", { title: "the verdict that was written down" }, `verdict: ${row.verdict}`),
      row.missing > 0 && h("span.tag.warn", null, `${count(row.missing, "line")} of the record lost`),
      row.problems > 0 && h("span.tag.warn", null, `${count(row.problems, "part")} of the record cannot be used`));
    // What was told while it lived is not what is to be said of it now: until that is there, nothing.
    if (!alive && this.toldAlive) this.headline.hidden = true;
    this.ladder.set(row.stop);
    this.row = row;
    this.paintFacts();
    if (!alive) this.paintTree(null);
  }

  paintFacts() {
    const row = this.row, told = this.story?.facts;
    const facts = [
      ["Run", h("span.number", null, this.id)],
      row.key && ["Key", [foreign(row.key), row.epoch !== null && h("span.dim", null, ` · epoch ${row.epoch}`)]],
      ["Began", h("span.number", { title: row.id }, atFull(row.began))],
      row.took !== null ? ["Took", span(row.took)] : row.state === "running" || row.state === "stopping" ? ["Runs for", h("span.number", { data: { since: row.began } })] : null,
      told && ["Directory", h("span.mono", null, foreign(told.cwd ?? "not known"))],
      row.root && ["Root", h("span.number", null, `pid ${row.root}`)],
      told && ["Owner", told.owner_watch === "none" || told.owner === null ? "nobody's death stops it" : h("span.number", null, `pid ${told.owner}`)],
      told && ["A stop takes at most", span(told.max_stop_ms)],
      told?.timeout_ms > 0 && ["Timeout", span(told.timeout_ms)],
      told && told.contain && told.contain !== "subreaper" && ["Held by", told.contain],
    ];
    fill(this.facts, facts.filter(Boolean).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
    ages(this.facts);
  }

  details() {
    const on = this.more.getAttribute("aria-pressed") !== "true";
    this.more.setAttribute("aria-pressed", String(on));
    this.paintClaims(on);
  }

  // The story is told anew when the record has grown; never twice at a time, and a long one rarely.
  async tell() {
    if (this.telling) { this.again = true; return; }
    this.telling = true;
    do {
      this.again = false;
      const began = performance.now();
      try {
        this.story = await get(`story/${this.id}`);
        if (this.gone) return;
        this.paintStory();
        picture(this.picture, await get(`timeline/${this.id}`, null, { text: true }));
      } catch (error) {
        if (error.status === 404) this.missing();
      }
      await this.lines.grew();
      const pause = Math.max(150, 4 * (performance.now() - began));
      await new Promise((resolve) => setTimeout(resolve, pause));
    } while (this.again && !this.gone);
    this.telling = false;
  }

  missing() {
    if (!this.row) fill(this.element, h("div.blank", null, h("strong", null, SAY.noRecord)));
  }

  paintStory() {
    if (!this.row) this.fromStory();
    setText(this.command, this.story.facts?.command || this.row?.command || this.id);
    const row = rows.runs.get(this.id);
    this.toldAlive = Boolean(this.story.live);
    this.headline.hidden = !this.story.headline.length || (this.toldAlive && row?.state === "ended");
    setText(this.headline, this.story.headline.join(" "));
    this.more.hidden = !this.story.claims.some((claim) => claim.detail);
    this.paintClaims(this.more.getAttribute("aria-pressed") === "true");
    this.paintCommands();
    if (this.row) this.paintFacts();
  }

  // A run of long ago is not among the rows: its record tells what it can.
  async fromStory() {
    try {
      this.past = await get(`row/${this.id}`);
      this.draw();
    } catch { /* the story alone, then */ }
  }

  paintClaims(details) {
    const shown = this.story.claims.filter((claim) => details || !claim.detail);
    fill(this.claims,
      this.story.claims_omitted > 0 && h("li", null, h("span"), h("span"), h("span.dim", null, `${count(this.story.claims_omitted, "earlier claim")} not shown`)),
      shown.map((claim) => h("li", { title: claim.events }, h("span.at", null, seconds(claim.at)), h("span.grade", { data: { grade: claim.grade } }, claim.grade),
        h(claim.detail ? "span.say.detail-only" : "span.say", null, foreign(claim.sentence)))));
  }

  paintCommands() {
    const { commands, commands_omitted: omitted } = this.story;
    this.commands.hidden = !commands.length;
    const key = `${commands.length} ${omitted}`;
    if (!commands.length || key === this.commandsKey) return;
    this.commandsKey = key;
    fill(this.commands, h("header", null, h("h2", null, "Commands of the agent"), h("span.dim", null, "as it reported them", omitted > 0 ? `; ${omitted.toLocaleString("en")} earlier ones are in the record` : "")),
      commands.map((one) => {
        const bad = one.phase === "unfinished" || (one.code !== null && one.code !== 0);
        const end = one.phase === "unfinished" ? "not finished" : one.phase === "background" ? "in the background" : one.code !== null ? `exit ${one.code}` : one.status ?? "ended";
        return h("details.command", null,
          h("summary", null, h(bad ? "span.tag.bad" : "span.tag", null, end), h("span.mono", null, foreign(one.command || "a command that it did not name")), h("span.dim.number", null, span(one.took))),
          h("pre", { tabindex: "0" }, one.output || "(no output)"));
      }));
  }
}
