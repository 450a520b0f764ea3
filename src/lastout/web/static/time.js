// Time by the server's clock: a page may be open on another machine, through a tunnel.
import { setText } from "./dom.js";

let ahead = 0;

export function heard(serverNow) {
  ahead = serverNow - Date.now();
}
export const now = () => Date.now() + ahead;

export function span(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 0) ms = 0;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m} min ${String(Math.floor(s % 60)).padStart(2, "0")} s`;
  const hours = Math.floor(m / 60);
  if (hours < 24) return `${hours} h ${String(m % 60).padStart(2, "0")} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function whole(ms) {
  if (ms < 1000) return "0 s";
  return ms < 10000 ? `${Math.floor(ms / 1000)} s` : span(ms);
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const full = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

export function at(ms) {
  if (!ms) return "";
  return now() - ms > 72e6 ? `${day.format(ms)}, ${clock.format(ms)}` : clock.format(ms);
}
export const atFull = (ms) => (ms ? full.format(ms) : "");
export const clockTime = (ms) => (ms ? clock.format(ms) : "");
export const seconds = (s, sign = true) => (s === null || s === undefined ? "" : `${sign && s >= 0 ? "+" : ""}${s.toFixed(3)} s`);

// Everything that shows an age is told once a second, while somebody can see it.
const tickers = new Set();
let timer = 0;
export function every(tick) {
  tickers.add(tick);
  tick();
  start();
  return () => tickers.delete(tick);
}
function start() {
  if (timer || document.hidden) return;
  timer = setInterval(() => { for (const tick of [...tickers]) tick(); }, 1000);
}
document.addEventListener("visibilitychange", () => {
  if (document.hidden) { clearInterval(timer); timer = 0; } else { for (const tick of [...tickers]) tick(); start(); }
});

export function ages(root) {
  for (const element of root.querySelectorAll("[data-since]")) setText(element, whole(now() - Number(element.dataset.since)));
}
