// Two texts side by side, or a unified diff made readable.

import { h } from "./dom.js";
import { between, parts, split, unified } from "./rows.js";
import { Windows } from "./windows.js";
import { count, visible } from "./words.js";

export const ROW = 20;

// What differs within two lines: what both begin and end with is left plain.
function marked([, raw, hidden], beside) {
  const text = visible(raw);
  if (hidden) return [text, h("i", { class: "faint" }, ` … ${count(hidden, "more character")}`)];
  if (!beside || beside[2]) return [text];
  const other = visible(beside[1]), most = Math.min(text.length, other.length);
  let start = 0, end = 0;
  while (start < most && text[start] === other[start]) start += 1;
  while (end < most - start && text[text.length - 1 - end] === other[other.length - 1 - end]) end += 1;
  if (start + end < text.length * 0.2) return [text];
  return [text.slice(0, start), h("em", null, text.slice(start, text.length - end)), text.slice(text.length - end)];
}

function cell(kind, line, other) {
  if (!line) return h("div", { class: "none" }, h("span"), h("span"));
  return h("div", { class: kind }, h("span", null, line[0]), h("span", null, marked(line, other)));
}

function drawn(row) {
  if (typeof row === "string") return [h("div", { class: "gap" }, row)];
  const [a, b, equal] = row;
  return equal ? [cell("same", a), cell("", b)] : [cell("del", a, b), cell("add", b, a)];
}

// Of a long difference only the rows that can be seen are in the page: parts of parts, so that the
// page has few of them to lay out, however long it is. `some(from, to)` are rows, or a promise of
// them where they are kept elsewhere.
export function table(some, from, to, windows) {
  const several = windows ?? new Windows(), found = parts(from, to);
  if (!found.length) {
    const rows = some(from, to), all = (some) => h("div", { class: "diff" }, some.map(drawn));
    return rows instanceof Promise ? rows.then(all) : all(rows);
  }
  return h("div", { class: "long" }, found.map(([first, end]) => several.add(h("div"), (end - first) * ROW, () => table(some, first, end, several))));
}

const whole = (rows) => table((from, to) => rows.slice(from, to), 0, rows.length);

export function sideBySide(before, after) {
  const rows = between(before, after);
  return rows.length ? whole(rows) : h("div", { class: "empty" }, "Nothing differs.");
}

// As a question to a person carries it.
export const fromUnified = (text, truncated) => whole(unified(split(text), truncated));
