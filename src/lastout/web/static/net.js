// The way to the server: the session, questions, and the stream that comes back by itself.
const KEPT = "lastout-token";
let token = localStorage.getItem(KEPT) ?? "";

export class Refused extends Error {
  constructor(status, text) { super(text); this.status = status; }
}

// The secret stands behind the # of the link: it is used once and taken out of the address.
export async function enter() {
  const found = /[#&]key=([\w-]+)/.exec(location.hash);
  if (!found) return token !== "";
  history.replaceState(null, "", location.pathname + "#/runs");
  const answer = await fetch("/api/session", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ secret: found[1] }),
  });
  if (!answer.ok) throw new Refused(answer.status, (await answer.text()).trim());
  token = (await answer.json()).token;
  localStorage.setItem(KEPT, token);
  return true;
}

function address(what, query) {
  const url = new URL(`/api/${what}`, location.origin);
  for (const [key, value] of Object.entries(query ?? {})) if (value !== null && value !== undefined) url.searchParams.set(key, value);
  return url;
}

export async function get(what, query, { signal, text } = {}) {
  const answer = await fetch(address(what, query), { headers: { "X-Lastout-Token": token }, signal, cache: "no-store" });
  if (!answer.ok) throw new Refused(answer.status, (await answer.text()).trim());
  return text ? answer.text() : answer.json();
}

export async function post(what, body) {
  const answer = await fetch(address(what), {
    method: "POST", body: JSON.stringify(body ?? {}),
    headers: { "X-Lastout-Token": token, "Content-Type": "application/json" },
  });
  if (!answer.ok) throw new Refused(answer.status, (await answer.text()).trim());
  return answer.json();
}

const SILENT_MS = 25_000; // the server says something every 10 s
const AGAIN_MS = [100, 250, 500, 1000, 2000];

export class Stream {
  constructor(on) {
    this.on = on; // {event(name, data), state("live" | "connecting" | "away"), locked()}
    this.last = "";
    this.run = null;
    this.tries = 0;
    this.begun = 0;
    addEventListener("online", () => this.again());
    document.addEventListener("visibilitychange", () => { if (!document.hidden && this.waiting) this.again(); });
  }

  start() { this.loop(++this.begun); }

  // A page that nobody sees gives its connection up where another is seen: a browser has six a server.
  pause() {
    if (!this.begun || this.paused) return;
    this.paused = true;
    ++this.begun;
    this.abort?.abort();
    this.wake?.();
  }
  resume() {
    if (!this.paused) return;
    this.paused = false;
    this.start();
  }

  // What one run does is told only to the page that shows it.
  watch(run) {
    if (run === this.run) return;
    this.run = run;
    this.tries = 0;
    if (this.begun && !this.paused) { this.abort?.abort(); this.start(); }
  }

  again() {
    if (!this.begun) return;
    this.tries = 0;
    this.wake?.();
  }

  async loop(me) {
    while (me === this.begun) {
      const abort = (this.abort = new AbortController());
      try {
        await this.once(abort, me);
      } catch (error) {
        if (error instanceof Refused && error.status === 401) { this.on.locked(); this.begun = 0; return; }
      }
      if (me !== this.begun) return;
      this.on.state(this.tries < 2 ? "connecting" : "away");
      this.waiting = true;
      const ms = AGAIN_MS[Math.min(this.tries++, AGAIN_MS.length - 1)];
      await new Promise((resolve) => { this.wake = resolve; setTimeout(resolve, ms); });
      this.waiting = false;
    }
  }

  async once(abort, me) {
    let silent = setTimeout(() => abort.abort(), SILENT_MS);
    try {
      const headers = { "X-Lastout-Token": token };
      if (this.last) headers["Last-Event-ID"] = this.last;
      const answer = await fetch(address("events", { run: this.run }), { headers, signal: abort.signal, cache: "no-store" });
      if (!answer.ok) throw new Refused(answer.status, "");
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "", from = 0;
      for (;;) {
        const { value, done } = await reader.read();
        if (done || me !== this.begun) return;
        clearTimeout(silent);
        silent = setTimeout(() => abort.abort(), SILENT_MS);
        text += value;
        let end;
        while ((end = text.indexOf("\n\n", Math.max(0, from - 1))) >= 0) {
          this.take(text.slice(0, end));
          text = text.slice(end + 2);
          from = 0;
        }
        from = text.length;
      }
    } finally {
      clearTimeout(silent);
    }
  }

  take(block) {
    let name = "message", data = "", id = null;
    for (const line of block.split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
      else if (line.startsWith("id: ")) id = line.slice(4);
    }
    this.tries = 0;
    this.on.state("live");
    this.on.event(name, JSON.parse(data));
    if (id !== null) this.last = id;
  }
}
