// The processes of a run, parents before children, and who leads which session.
import { fill, foreign, h } from "./dom.js";
import { count, ROLES, TREE_WHY } from "./words.js";

export function paintTree(element, tree) {
  if (tree.why) {
    fill(element, h("p.dim", null, TREE_WHY[tree.why] ?? tree.why));
    return "";
  }
  const children = new Map();
  const known = new Set(tree.members.map((one) => one.pid));
  for (const one of tree.members) {
    const parent = known.has(one.parent) ? one.parent : 0;
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(one);
  }
  const rows = [];
  const visit = (one, depth) => {
    rows.push(row(one, depth));
    for (const child of children.get(one.pid) ?? []) visit(child, depth + 1);
  };
  for (const one of children.get(0) ?? []) visit(one, 0);
  fill(element, h("table.tree", null,
    h("thead", null, h("tr", null, ["Process", "Pid", "Session", "Group", ""].map((name, i) => h(i === 3 ? "th.wide" : "th", { scope: "col" }, name)))),
    h("tbody", null, rows)), tree.more > 0 && h("p.dim", null, `and ${count(tree.more, "more", "more")}`));
  const members = tree.members.filter((one) => one.role === "root" || one.role === "member").length + tree.more;
  const sessions = new Set(tree.members.filter((one) => one.session && one.session === one.pid && one.role !== "keeper").map((one) => one.pid)).size;
  return `${count(members, "process", "processes")} of the agent, ${count(sessions, "session")}, as they are now`;
}

const STATES = { T: "stopped", t: "traced", Z: "a thread is left", D: "waits for the disk" };

function row(one, depth) {
  const own = one.role === "front" || one.role === "keeper";
  const leads = one.session && one.session === one.pid;
  return h("tr", { data: { pid: one.pid } },
    h("td.who", null, h("span.deep", { "aria-hidden": "true" }, depth ? "  ".repeat(depth - 1) + "└ " : ""), own ? h("span.dim", null, ROLES[one.role]) : foreign(one.name), one.role === "root" && [" ", h("span.tag.ok", null, "root")]),
    h("td.num", null, one.pid),
    h("td.num", null, own && one.role === "front" ? "" : leads && !own ? h("span.tag.info", null, `leads ${one.session}`) : h("span.dim", null, one.session ?? "")),
    h("td.num.wide", null, h("span.dim", null, one.group ?? "")),
    h("td", null, one.role === "init" && h("span.tag", null, ROLES.init), STATES[one.state] && h("span.tag.warn", null, STATES[one.state])));
}
