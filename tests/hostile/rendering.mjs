// Renders texts as the console does, in a page that only notes what is put into it: which elements,
// which addresses, which words, and how long it took. Texts come as JSON, and so do the notes go.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

class Element {
  constructor(tag) { this.tagName = tag.toUpperCase(); this.childNodes = []; this.attributes = {}; this.dataset = {}; this.style = { setProperty() {} }; }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(name) { this.attributes[`on${name}`] = "listener"; }
  append(...children) { this.childNodes.push(...children); }
  replaceChildren(...children) { this.childNodes = children; }
}
globalThis.Node = Element;
globalThis.document = { createElement: (tag) => new Element(tag), createElementNS: (_, tag) => new Element(tag), createTextNode: (text) => text };
globalThis.window = globalThis;
globalThis.location = { hash: "", origin: "http://console.example" };
globalThis.localStorage = globalThis.sessionStorage = { getItem: () => null, setItem() {} };
globalThis.addEventListener = () => {};
globalThis.IntersectionObserver = globalThis.ResizeObserver = class { observe() {} unobserve() {} disconnect() {} };

const [, , folder] = process.argv;
const load = (name) => import(pathToFileURL(`${folder}/${name}`).href);
const { markdown } = await load("markdown.js"), { painter } = await load("highlight.js"), { plain, visible } = await load("words.js"), { fromUnified, sideBySide } = await load("difference.js");

function noted(element, into) {
  if (!(element instanceof Element)) { into.words.push(String(element)); return into; }
  into.tags.add(element.tagName);
  for (const [name, value] of Object.entries(element.attributes)) into.attributes.add(["href", "src"].includes(name) ? `${name}=${value}` : name);
  for (const child of element.childNodes) noted(child, into);
  return into;
}

const WAYS = {
  markdown: (text) => markdown(text, "notes/a.md"),
  code: (text) => { const paint = painter("a.py"), shown = new Element("pre"); for (const line of text.split("\n")) shown.append(...paint(visible(line)).map(([each]) => each)); return shown; },
  name: (text) => plain(text),
  difference: (text) => fromUnified(["@@ -1,1 +1,1 @@", ...text.split("\n").map((line) => `+${line}`)].join("\n"), false),
  sides: (text) => sideBySide(text, text.split("\n").reverse().join("\n")),
};
const { way, texts } = JSON.parse(readFileSync(0, "utf8"));
const told = texts.map((text) => {
  const into = { tags: new Set(), attributes: new Set(), words: [] }, begun = process.hrtime.bigint();
  noted(WAYS[way](text), into);
  return { tags: [...into.tags], attributes: [...into.attributes], words: into.words.join("").slice(0, 2000), ms: Number(process.hrtime.bigint() - begun) / 1e6 };
});
process.stdout.write(JSON.stringify(told));
