// Everything that the page says to people.
export const VIEWS = { runs: "Runs", jobs: "Jobs", services: "Services", leases: "Leases", history: "History" };

export const STATES = {
  running: "running", stopping: "stopping", unproven: "not proven", lost: "lost", starting: "starting",
  ended: "ended", "not-started": "not started", queued: "queued", idle: "idle", asks: "asks", failed: "failed",
};

export const SECTIONS = {
  look: "Needs a look", stopping: "Stopping", running: "Running", over: "Over",
  asks: "Asks for an answer", queued: "Waiting in the queue", held: "Held", free: "Given back",
};

export const STATE_SAYS = {
  running: "The supervisor is alive.",
  starting: "Nothing but its beginning is in the record yet.",
  stopping: "A stop is under way.",
  unproven: "The bound of the stop is over and something was left. The keeper stays until it has ended.",
  lost: "The supervisors are gone without a last word: what became of the tree is not known.",
  ended: "Nothing of it is left: the kernel said so.",
  "not-started": "Nothing was started.",
};

export const STAGES = { stdin: "stdin end", term: "SIGTERM", kill: "SIGKILL" };
export const STAGE_SAYS = {
  stdin: "Its stdin has ended; it may end by itself.",
  term: "Asked to end (SIGTERM).",
  kill: "SIGKILL to all that is left.",
  gone: "Nothing is left.",
  unproven: "Something was left when the bound was over.",
};

export const TRIGGERS = {
  "owner-died": "its owner died", "owner-hung-up": "its owner hung up", "stdin-ended": "its stdin ended",
  signal: "a signal", requested: "it was asked for", timeout: "its timeout was over",
  "lease-expired": "its lease expired", "peer-lost": "front or keeper was lost", "root-exited": "the root exited and others were left",
};

export const ROLES = { front: "front", keeper: "keeper", root: "root", init: "init of its pid namespace", member: "" };

export const TREE_WHY = {
  boot: "It ran before this machine was started anew.",
  namespace: "It lives in another pid namespace: its processes cannot be seen from here.",
  gone: "Its supervisor is gone.",
  unreadable: "The process table cannot be read.",
};

export const SERVICE_STATES = { idle: "never started", accepted: "accepted", starting: "starting", running: "running", unproven: "not proven", ended: "ended", unreadable: "cannot be read" };

export const LEASE_STATES = {
  free: "free", reserved: "reserved", committed: "held", proven: "held, proven", unproven: "held, unproven",
};

export const SAY = {
  live: "live", connecting: "connecting", away: "no connection",
  awayFor: (s) => `no connection for ${s}`,
  locked: "This page opens by its link",
  lockedHow: "The server prints it when it starts, and again with: lastout web --link",
  badLink: "This link is not, or no longer, the right one",
  reading: "Reading the records",
  readingHow: "The first time this can take a while.",
  nothingRuns: "Nothing runs",
  nothingRunsHow: "What is started with “lastout run”, or by a program that uses lastout, shows up here by itself.",
  noMatch: "Nothing matches",
  noJobs: "No jobs", noJobsHow: "Background work that is started with “lastout job” shows up here by itself.",
  noServices: "No services", noServicesHow: "Work that outlives its agent: its owner provisions it with “lastout service add”.",
  noLeases: "No leases", noLeasesHow: "A run that is started with “--key” holds one.",
  heldOver: "The next start with this key, or lastout recover, takes it over.",
  noRecord: "There is no record of this run",
  noJob: "There is no such job any more",
  keep: "Keep it running", stop: "Stop it", stopping: "Stopping…", close: "Close", back: "Back to the list",
  stopTitle: "Stop this run?", cancelTitle: "End this job?", cancel: "End it", cancelling: "Ending…",
  stopNow: "Without the graces: SIGKILL to all of it at once",
  reason: "Why? Goes into the record (optional)",
  settled: "Done", unsettled: "Not done",
  copied: "Copied",
};

export const KEYS = [
  ["1 – 5", "the views"],
  ["/", "search"],
  ["↑ ↓ or j k", "move in the list"],
  ["Enter", "open"],
  ["Esc", "back to the list; close what is open"],
  ["s", "stop what is open (asks first)"],
  ["t", "light, dark, or as the system has it"],
  ["?", "this help"],
];

export function whatStops(graces) {
  if (!graces) return "First politely (SIGTERM), then completely (SIGKILL), within the bound of this run.";
  return `First politely (SIGTERM), then completely (SIGKILL), whatever it forked. It takes at most ${(graces / 1000).toLocaleString("en", { maximumFractionDigits: 1 })} s.`;
}
export const whatCancels = "Its agent or command is stopped with everything that it started. What it has written stays.";

export function howEnded(row) {
  if (row.state === "not-started") return ["not started", "bad"];
  if (row.state === "lost") return ["end not known", "bad"];
  if (row.state === "unproven") return ["not proven", "bad"];
  if (row.signal) return [row.signal.startsWith("SIG") ? row.signal : `SIG${row.signal}`, row.stop ? "soft" : "warn"];
  if (row.code === 0) return ["exit 0", "soft"];
  if (row.code !== null) return [`exit ${row.code}`, row.stop ? "soft" : "warn"];
  return ["ended", "soft"];
}

export function why(stop) {
  if (!stop) return "";
  let text = TRIGGERS[stop.trigger] ?? stop.trigger;
  if (stop.trigger === "signal" && stop.signal) {
    text = `SIG${stop.signal}` + (stop.sender ? ` from pid ${stop.sender}` : "");
  } else if (stop.trigger === "owner-died" && stop.which === "parent") text = "its parent died";
  else if (stop.trigger === "peer-lost" && stop.which) text = `the ${stop.which} was lost`;
  if (stop.reason) text += `, ${stop.reason}`;
  if (stop.by) text += `, by ${stop.by}`;
  return text;
}

export function count(number, one, many = one + "s") {
  return number === 1 ? `1 ${one}` : `${number.toLocaleString("en")} ${many}`;
}
