// Elements without markup: text is always text, whoever wrote it.
export function h(name, attributes, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "data") Object.assign(element.dataset, value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

// Text of strangers: isolated, so that its direction ends where it ends.
export const foreign = (text, tag = "bdi") => h(tag, null, text);

export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const $ = (id) => document.getElementById(id);

let saying = 0, waiting = [];
// Told to who cannot see the page; not more often than somebody can listen.
export function say(text) {
  waiting.push(text);
  clearTimeout(saying);
  saying = setTimeout(() => {
    const told = waiting.length > 3 ? `${waiting.length} changes, the last: ${waiting.at(-1)}` : waiting.join(". ");
    waiting = [];
    $("say").textContent = told;
  }, 700);
}
