// What the server told, by kind and name, and who wants to know of changes.
import { heard } from "./time.js";

export const rows = { runs: new Map(), jobs: new Map(), leases: new Map(), services: new Map() };
export const store = { ready: false, hello: null, watched: null };
const listeners = new Set();
let due = 0;

export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// Painted at most once a frame, however many events come; a page in the background still keeps up.
const changed = new Map();
function announce(kind, id) {
  if (!changed.has(kind)) changed.set(kind, new Set());
  if (id !== undefined) changed.get(kind).add(id);
  if (!due) due = document.hidden ? setTimeout(tell, 100) : requestAnimationFrame(tell);
}
function tell() {
  due = 0;
  const told = new Map(changed);
  changed.clear();
  for (const listener of [...listeners]) listener(told);
}
document.addEventListener("visibilitychange", () => { if (due) { cancelAnimationFrame(due); clearTimeout(due); tell(); } });

export const news = { run: () => {} };

export function take(name, data) {
  if (data.now) heard(data.now);
  if (name === "hello") {
    if (store.hello && store.hello.build !== data.build) location.reload(); // the server is another version now
    store.hello = data;
    announce("hello");
  } else if (name === "all" || name === "some") {
    const first = name === "all" && !store.ready;
    for (const kind of Object.keys(rows)) {
      const told = data[kind] ?? [];
      if (name === "all") {
        const there = new Set(told.map((row) => row.id));
        for (const id of [...rows[kind].keys()]) if (!there.has(id)) { rows[kind].delete(id); announce(kind, id); }
      }
      for (const row of told) {
        const before = rows[kind].get(row.id);
        rows[kind].set(row.id, row);
        announce(kind, row.id);
        if (!first) news.run(kind, before, row);
      }
    }
    for (const [kind, id] of data.gone) { rows[kind]?.delete(id); announce(kind, id); }
    if (data.ready !== store.ready) { store.ready = data.ready; announce("ready"); }
  } else if (name === "watched") {
    store.watched = data;
    announce("watched");
  }
}
