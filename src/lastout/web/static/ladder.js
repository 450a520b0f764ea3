// A stop as a band: the planned stages, how far it is by the clock, and what was recorded on it.
import { fill, foreign, h, setText } from "./dom.js";
import { now, seconds } from "./time.js";
import { STAGES, STAGE_SAYS, why } from "./words.js";

const NAMES = ["stdin", "term", "kill"];

// How much of the whole plan is over; recorded ends stand, the rest goes by the clock.
export function share(stop) {
  const whole = stop.graces.reduce((sum, ms) => sum + ms, 0) || 1;
  const spent = stop.ended ?? now() - stop.at;
  return Math.max(0, Math.min(1, spent / whole));
}

export class Ladder {
  constructor() {
    this.band = h("div.band", { role: "img" });
    this.says = h("p", { role: "status" });
    this.marks = h("ol.marks");
    this.element = h("section.block", { "aria-label": "The stop" }, h("header", null, h("h2", null, "Stop"), (this.because = h("span.dim"))), this.band, this.says, this.marks);
  }

  set(stop) {
    this.stop = stop;
    this.element.hidden = !stop?.graces;
    if (!stop?.graces) return;
    setText(this.because, why(stop));
    const planned = NAMES.map((name, i) => ({ name, ms: stop.graces[i] })).filter((stage) => stage.ms > 0);
    this.whole = planned.reduce((sum, stage) => sum + stage.ms, 0) || 1;
    let at = 0;
    this.stages = planned.map(({ name, ms }) => {
      const bar = h("i");
      const element = h(`div.stage.${name}`, { title: `${STAGES[name]}: at most ${seconds(ms / 1000, false)}` }, bar, h("span", null, STAGES[name]));
      element.style.flex = `${ms} 1 0`;
      const stage = { name, ms, at, bar, element };
      at += ms;
      return stage;
    });
    const ticks = stop.marks.map((mark) => h("div.tick", { title: `${seconds(mark.at / 1000)} ${mark.what}` })).map((tick, i) => {
      tick.style.left = `${Math.min(99.4, (100 * stop.marks[i].at) / this.whole)}%`;
      return tick;
    });
    if (stop.proven) {
      const gone = h("div.tick.gone", { title: `${seconds(stop.ended / 1000)} nothing is left` });
      gone.style.left = `${Math.min(99.2, (100 * stop.ended) / this.whole)}%`;
      ticks.push(gone);
    }
    fill(this.band, this.stages.map((stage) => stage.element), ticks);
    fill(this.marks, row(0, "stop", why(stop)), stop.marks.map((mark) => row(mark.at, mark.what, mark.detail)),
      stop.ended !== null && row(stop.ended, stop.proven ? "tree gone" : "not proven", stop.proven ? "the kernel said that nothing is left" : "something was left"));
    this.tick();
  }

  tick() {
    const stop = this.stop;
    if (!stop?.graces) return;
    const spent = stop.ended ?? Math.min(now() - stop.at, this.whole);
    for (const stage of this.stages) {
      const done = Math.max(0, Math.min(1, (spent - stage.at) / stage.ms));
      stage.bar.style.transform = `scaleX(${done})`;
      stage.element.classList.toggle("now", stop.ended === null && stage.name === stop.stage);
    }
    const over = stop.ended !== null;
    setText(this.says, (STAGE_SAYS[stop.stage] ?? "") + (over ? ` ${seconds(stop.ended / 1000, false)} after it began.` : ""));
    this.band.setAttribute("aria-label", `Ladder: ${STAGE_SAYS[stop.stage] ?? ""}`);
    if (!over && this.element.isConnected && !document.hidden) {
      // As smooth as the screen, or twice a second for who wants no motion.
      if (matchMedia("(prefers-reduced-motion: reduce)").matches) setTimeout(() => this.tick(), 500);
      else requestAnimationFrame(() => this.tick());
    }
  }
}

function row(ms, what, detail) {
  return h("li", null, h("span.number", null, seconds(ms / 1000)), h("span", null, foreign(what, "strong"), " ", foreign(detail ?? "")));
}
