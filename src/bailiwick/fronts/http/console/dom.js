// Elements from values. Text only ever becomes text: nothing here, and nothing in the console,
// turns a string into markup, so a file cannot become part of the page.

const SVG = "http://www.w3.org/2000/svg";

function apply(element, props) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2).toLowerCase(), value);
    else if (name === "style") for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "hidden") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export function h(tag, props, ...children) {
  return append(apply(document.createElement(tag), props), children);
}

export function svg(tag, props, ...children) {
  return append(apply(document.createElementNS(SVG, tag), props), children);
}

export function fill(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

// What is drawn anew between the press of a button and its release is never clicked.
export async function released() {
  while (document.querySelector("button:active")) await new Promise(requestAnimationFrame);
}

// One line drawings, 20 by 20, in the colour of the text around them.
const DRAWINGS = {
  folder: "M2.5 5.5a1.5 1.5 0 0 1 1.5-1.5h3.6l1.9 2H16a1.5 1.5 0 0 1 1.5 1.5v7A1.5 1.5 0 0 1 16 16H4a1.5 1.5 0 0 1-1.5-1.5z",
  file: "M5 2.5h6.5l3.5 3.5v10A1.5 1.5 0 0 1 13.5 17.5h-8A1.5 1.5 0 0 1 4 16V4a1.5 1.5 0 0 1 1-1.5zM11.5 2.5V6H15",
  link: "M8.5 11.5l3-3M7.5 9 5.8 10.7a2.5 2.5 0 0 0 3.5 3.5L11 12.5M12.5 11l1.7-1.7a2.5 2.5 0 0 0-3.5-3.5L9 7.5",
  search: "M9 14.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11zM13 13l4 4",
  pulse: "M2 10.5h3.5L8 4.5l4 11 2.5-5H18",
  shield: "M10 2.5l6 2v5c0 4-2.6 6.6-6 8-3.4-1.4-6-4-6-8v-5z",
  book: "M4 3.5h9.5A2.5 2.5 0 0 1 16 6v10.5H6.5A2.5 2.5 0 0 1 4 14zM4 14a2 2 0 0 1 2-2h10M7.5 6.5h5",
  key: "M12.5 3.5a4 4 0 1 1-3.6 5.8L3.5 14.7v1.8h2.3v-1.9h1.9v-1.8l2.4-2.4a4 4 0 0 1 2.4-6.9zM13.5 6.5h.01",
  fork: "M6 4.5v11M6 4.5a1.5 1.5 0 1 0 0-.01M6 15.5a1.5 1.5 0 1 0 0 .01M14 6a1.5 1.5 0 1 0 0-.01M14 7.5c0 3-5 2.5-8 4.5",
  chart: "M3.5 16.5V9.5M8 16.5v-13M12.5 16.5v-9M17 16.5v-5",
  clock: "M10 17.5a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15zM10 6v4.2l3 1.8",
  play: "M6.5 4.5v11l9-5.5z",
  plus: "M10 4v12M4 10h12", up: "M10 16V4.5M5 9.5l5-5 5 5", down: "M10 4v11.5M5 10.5l5 5 5-5",
  check: "M4 10.5l4 4 8-9", cross: "M5 5l10 10M15 5L5 15", dots: "M5 10h.01M10 10h.01M15 10h.01",
  sun: "M10 13.5a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM10 2v2M10 16v2M2 10h2M16 10h2M4.3 4.3l1.4 1.4M14.3 14.3l1.4 1.4M4.3 15.7l1.4-1.4M14.3 5.7l1.4-1.4",
  moon: "M16 11.5A6.5 6.5 0 0 1 8.5 4a6.5 6.5 0 1 0 7.5 7.5z",
  pen: "M4 16l.8-3.4L13.6 3.8a1.6 1.6 0 0 1 2.3 0l.3.3a1.6 1.6 0 0 1 0 2.3L7.4 15.2z",
  trash: "M4 5.5h12M8 5.5V4h4v1.5M5.5 5.5l.7 11h7.6l.7-11", back: "M8.5 4.5l-5 5.5 5 5.5M3.5 10h13",
  menu: "M3.5 6h13M3.5 10h13M3.5 14h13", eye: "M2 10s3-5.5 8-5.5S18 10 18 10s-3 5.5-8 5.5S2 10 2 10zM10 12.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4z",
};

export function icon(name, label) {
  const drawing = svg("svg", { viewBox: "0 0 20 20", class: "icon", "aria-hidden": label ? null : "true", role: label ? "img" : null },
    label ? svg("title", null, label) : null, svg("path", { d: DRAWINGS[name] ?? DRAWINGS.file }));
  return drawing;
}
