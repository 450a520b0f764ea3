// The frame: which view is shown, the keys, the theme, the connection.
import { help, isOpen } from "./dialogs.js";
import { $, fill, h, setText } from "./dom.js";
import { History } from "./history.js";
import { active, asking, JobPage, Jobs, tellJob } from "./jobs.js";
import { Leases, unproven } from "./leases.js";
import { enter, Stream } from "./net.js";
import { RunPage } from "./run.js";
import { live, needsLook, Runs, tell } from "./runs.js";
import { running, Services, stuck } from "./services.js";
import { listen, news, rows, store, take } from "./store.js";
import { every, span } from "./time.js";
import { SAY, VIEWS } from "./words.js";

const main = $("main");
const shown = { name: null, view: null, page: null };
const made = {};
const makers = { runs: Runs, jobs: Jobs, services: Services, leases: Leases, history: History };
let since = 0, connection = "connecting";

const stream = new Stream({
  event: take,
  state(now) {
    if (now === connection) return;
    if (now !== "live" && connection === "live") since = Date.now();
    connection = now;
    paintPulse();
  },
  locked: () => lock(SAY.locked),
});

function lock(text) {
  shown.view?.shut();
  shown.page?.shut();
  $("views").hidden = true;
  main.className = "";
  fill(main, h("div.blank", { role: "alert" }, h("strong", null, text), SAY.lockedHow));
  connection = "away";
  setText($("pulse"), "");
}

function paintPulse() {
  const pulse = $("pulse");
  pulse.dataset.now = connection;
  setText(pulse, connection === "away" ? SAY.awayFor(span(Math.floor((Date.now() - since) / 1000) * 1000)) : SAY[connection]);
}

// ---- views -----------------------------------------------------------------------------------

function route() {
  const [, where, id] = /^#\/(\w+)(?:\/([\w.-]+))?$/.exec(location.hash) ?? [null, "runs", null];
  const name = { run: "runs", job: "jobs" }[where] ?? (VIEWS[where] ? where : "runs");
  const list = (made[name] ??= new makers[name]());
  if (shown.name !== name) {
    shown.view?.shut();
    shown.name = name;
    shown.view = list;
    list.open();
  }
  shown.page?.shut();
  shown.page = null;
  const back = () => { location.hash = `#/${shown.name}`; };
  if (where === "run" && id) shown.page = new RunPage(id, { back });
  else if (where === "job" && id) shown.page = new JobPage(id, { back });
  list.element.classList.toggle("side", Boolean(shown.page));
  main.className = shown.page ? "two" : "";
  fill(main, list.element, shown.page && h("section.pane", null, shown.page.element));
  list.mark?.(id);
  shown.page?.open();
  stream.watch(where === "run" ? id : null);
  paintViews();
  if (shown.page && !list.element.offsetParent) main.focus({ preventScroll: true });
}

function paintViews() {
  const counts = { runs: live(), jobs: active(), services: running(), leases: [...rows.leases.values()].filter((one) => one.state !== "free").length };
  const alarms = { runs: needsLook(), jobs: asking(), services: stuck(), leases: unproven() };
  const key = JSON.stringify([shown.name, counts, alarms]);
  if (key === paintViews.key) return;
  paintViews.key = key;
  const focused = document.activeElement?.dataset?.view;
  fill($("views"), Object.entries(VIEWS).map(([name, text]) => h("a", { href: `#/${name}`, "aria-current": name === shown.name ? "page" : null, data: { view: name } }, text,
    alarms[name] > 0 ? h("span.count.alarm", { title: "need a look" }, alarms[name]) : counts[name] > 0 && h("span.count", null, counts[name].toLocaleString("en")))));
  if (focused) $("views").querySelector(`[data-view="${focused}"]`)?.focus();
  const stopping = [...rows.runs.values()].filter((row) => row.state === "stopping").length;
  document.title = [Object.values(alarms).some((many) => many > 0) && `(!) `, stopping > 0 && `${stopping} stopping, `, counts.runs > 0 && `${counts.runs.toLocaleString("en")} live – `, "lastout"].filter(Boolean).join("");
}

listen((told) => {
  if (told.has("hello")) {
    const { user, host, state } = store.hello;
    setText($("where"), `${user}@${host}`);
    $("where").title = state;
  }
  paintViews();
});
news.run = (kind, before, row) => { if (kind === "runs") tell(before, row); else if (kind === "jobs") tellJob(before, row); };

// ---- theme -----------------------------------------------------------------------------------

const THEMES = { system: ["◐", "as the system has it"], light: ["☀", "light"], dark: ["☾", "dark"] };
let theme = localStorage.getItem("lastout-theme") ?? "system";
function paintTheme() {
  if (!THEMES[theme]) theme = "system";
  if (theme === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = theme;
  setText($("theme"), THEMES[theme][0]);
  $("theme").setAttribute("aria-label", `Colours: ${THEMES[theme][1]}`);
  $("theme").title = `Colours: ${THEMES[theme][1]} (t)`;
}
function nextTheme() {
  const names = Object.keys(THEMES);
  theme = names[(names.indexOf(theme) + 1) % names.length];
  localStorage.setItem("lastout-theme", theme);
  paintTheme();
}
$("theme").addEventListener("click", nextTheme);
$("help").addEventListener("click", help);
$("help").setAttribute("aria-label", "Keys");
$("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });

// ---- keys ------------------------------------------------------------------------------------

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isOpen() || !shown.view) return;
  const typing = event.target.matches("input, textarea");
  if (event.key === "Escape") {
    if (typing && event.target.value) { event.target.value = ""; event.target.dispatchEvent(new Event("input")); } else if (shown.page) goBack();
    else if (typing) event.target.blur();
    return;
  }
  if (typing) return;
  const views = Object.keys(VIEWS);
  const action = {
    "?": help, t: nextTheme, s: () => shown.page?.stop(), "/": () => { shown.view.search?.focus(); shown.view.search?.select(); },
    j: () => shown.view.list?.move(1), k: () => shown.view.list?.move(-1), ArrowDown: () => shown.view.list?.move(1), ArrowUp: () => shown.view.list?.move(-1),
    ...Object.fromEntries(views.map((name, i) => [String(i + 1), () => { location.hash = `#/${name}`; }])),
  }[event.key];
  if (!action || event.defaultPrevented) return;
  if (event.key.startsWith("Arrow") && event.target !== document.body && event.target !== main) return;
  event.preventDefault();
  action();
});

function goBack() {
  const id = shown.page.id;
  location.hash = `#/${shown.name}`;
  setTimeout(() => shown.view.list?.focus(id));
}

// ---- several pages ---------------------------------------------------------------------------

const pages = new BroadcastChannel("lastout-pages");
pages.addEventListener("message", () => { if (document.hidden) stream.pause(); });
const seen = () => { if (!document.hidden) { stream.resume(); pages.postMessage("seen"); } };
document.addEventListener("visibilitychange", seen);

// ---- the beginning ---------------------------------------------------------------------------

async function begin() {
  paintTheme();
  paintPulse();
  try {
    if (!(await enter())) { lock(SAY.locked); return; }
  } catch (error) {
    lock(error.status === 403 ? SAY.badLink : error.message);
    return;
  }
  addEventListener("hashchange", () => { if (/[#&]key=/.test(location.hash)) location.reload(); else route(); });
  route();
  stream.start();
  seen();
  every(paintPulse);
}
begin();
