// The time line, drawn by the server. Of its elements only those that draw are taken over, so that
// nothing of it can do anything; its colours are the page's.
import { fill } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const TAGS = new Set(["svg", "title", "rect", "text", "line", "polygon"]);
const ATTRIBUTES = new Set(["viewBox", "role", "class", "x", "y", "width", "height", "x1", "y1", "x2", "y2", "points", "stroke-width", "stroke-dasharray"]);

const policy = globalThis.trustedTypes?.createPolicy("timeline", { createHTML: (text) => text });

export function picture(element, drawn) {
  const text = drawn.replace(/<style>[^]*?<\/style>/, ""); // its own colours would only be refused
  const parsed = new DOMParser().parseFromString(policy ? policy.createHTML(text) : text, "image/svg+xml");
  const root = copy(parsed.documentElement);
  if (!root || root.tagName !== "svg") { fill(element, "There is no picture of this record."); return; }
  root.removeAttribute("width");
  root.removeAttribute("height");
  root.setAttribute("class", "timeline");
  fill(element, root);
}

function copy(from) {
  if (from.namespaceURI !== SVG || !TAGS.has(from.localName)) return null;
  const to = document.createElementNS(SVG, from.localName);
  for (const { name, value } of from.attributes) if (ATTRIBUTES.has(name)) to.setAttribute(name, value);
  for (const child of from.childNodes) {
    const one = child.nodeType === Node.TEXT_NODE ? document.createTextNode(child.data) : child.nodeType === Node.ELEMENT_NODE ? copy(child) : null;
    if (one) to.append(one);
  }
  return to;
}
