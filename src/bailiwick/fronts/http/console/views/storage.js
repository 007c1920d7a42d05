// Where the bytes are: a picture by directory, as far as it was counted, and it says how far.

import { h, fill, svg } from "../dom.js";
import * as api from "../api.js";
import { crumbs } from "../crumbs.js";
import { has } from "../state.js";
import { go } from "../router.js";
import { complain } from "../dialogs.js";
import { count, join, plain, size } from "../words.js";

const COUNTED_MAX = 50000, WIDTH = 1000, HEIGHT = 360;
const TONES = ["#0f766e", "#1d4ed8", "#7c3aed", "#b45309", "#be123c", "#15803d", "#0369a1", "#a21caf"];

export function view({ path }) {
  const figures = h("div", { class: "figures" }), picture = h("div", { class: "card padded" }), largest = h("div", { class: "card" }), stopper = new AbortController();
  const element = h("div", { class: "page scrolls" }, h("div", { class: "bar" }, crumbs(path)), figures, picture, largest);
  fill(picture, h("div", { class: "empty" }, "Counting…"));
  measure(path, stopper.signal).then((found) => draw(found, path, figures, picture, largest), complain);
  return { element, title: "Storage", close: () => stopper.abort() };
}

async function measure(path, signal) {
  const answer = await api.get("/find", { path, type: "file", limit: COUNTED_MAX, includeIgnored: true }, { signal });
  const sums = new Map();
  let bytes = 0;
  for (const entry of answer.entries) {
    const rest = path === "." ? entry.path : entry.path.slice(path.length + 1), at = rest.indexOf("/");
    const part = at < 0 ? rest : rest.slice(0, at), sum = sums.get(part) ?? { name: part, bytes: 0, files: 0, folder: at >= 0 };
    sum.bytes += entry.sizeBytes; sum.files += 1; bytes += entry.sizeBytes;
    sums.set(part, sum);
  }
  return { bytes, files: answer.entries.length, cut: answer.truncated, parts: [...sums.values()].sort((a, b) => b.bytes - a.bytes), top: [...answer.entries].sort((a, b) => b.sizeBytes - a.sizeBytes).slice(0, 15) };
}

function draw(found, path, figures, picture, largest) {
  const card = (label, value) => h("div", { class: "card" }, h("span", { class: "soft" }, label), h("b", null, value));
  fill(figures, card("Files", found.files.toLocaleString("en") + (found.cut ? "+" : "")), card("Bytes", size(found.bytes) + (found.cut ? "+" : "")), card("Largest", found.top[0] ? size(found.top[0].sizeBytes) : "–"), card("Kept by", has("forks") ? "a volume" : "a directory"));
  if (found.bytes) fill(picture, treemap(found, path), found.cut ? h("p", { class: "soft" }, `The first ${count(found.files, "file")} were counted; there are more.`) : null);
  else fill(picture, h("div", { class: "empty" }, "There are no bytes here yet."));
  fill(largest, h("table", { class: "rows" }, h("thead", null, h("tr", null, h("th", null, "Largest files"), h("th", null, "Size"))), h("tbody", null, found.top.map((each) => h("tr", null, h("td", null, h("a", { href: "#", onClick: (event) => { event.preventDefault(); go("file", each.path); } }, plain(each.path))), h("td", null, size(each.sizeBytes)))))));
}

// Squares in rows: each row takes as many parts as keep it from getting thin.
function treemap(found, path) {
  const boxes = [];
  let x = 0, y = 0, width = WIDTH, height = HEIGHT, rest = found.parts.filter((each) => each.bytes).slice(0, 60), total = rest.reduce((sum, each) => sum + each.bytes, 0);
  while (rest.length) {
    const flat = width >= height, side = flat ? height : width, scale = (width * height) / total;
    let row = [], sum = 0, worst = Infinity;
    for (const each of rest) {
      const next = sum + each.bytes, length = (next * scale) / side;
      const thin = Math.max(...[...row, each].map((one) => { const other = (one.bytes * scale) / length; return Math.max(length / other, other / length); }));
      if (row.length && thin > worst) break;
      row.push(each); sum = next; worst = thin;
    }
    const length = (sum * scale) / side;
    let at = 0;
    for (const each of row) { const span = (each.bytes * scale) / length; boxes.push(flat ? { each, x, y: y + at, w: length, h: span } : { each, x: x + at, y, w: span, h: length }); at += span; }
    if (flat) { x += length; width -= length; } else { y += length; height -= length; }
    total -= sum;
    rest = rest.slice(row.length);
  }
  return svg("svg", { class: "treemap", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": "Bytes by directory" }, boxes.map(({ each, x: left, y: top, w, h: tall }, at) => svg("g", { onClick: () => go(each.folder ? "storage" : "file", join(path, each.name)) },
    svg("rect", { x: left, y: top, width: w, height: tall, rx: 4, fill: TONES[at % TONES.length], "fill-opacity": each.folder ? 1 : 0.72 }, svg("title", null, `${plain(each.name)}: ${size(each.bytes)} in ${count(each.files, "file")}`)),
    w > 70 && tall > 34 ? [svg("text", { x: left + 9, y: top + 19 }, plain(each.name).slice(0, Math.floor(w / 8))), svg("text", { class: "small", x: left + 9, y: top + 35 }, size(each.bytes))] : null)));
}
