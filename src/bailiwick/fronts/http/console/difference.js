// Two texts side by side, or a unified diff made readable.

import { h } from "./dom.js";
import { Windows } from "./windows.js";
import { visible } from "./words.js";

const LINES_MAX = 20000, EDITS_MAX = 2000, ROWS_AT_A_TIME = 25, PARTS_MAX = 40, ROW = 20, WIDE = 2000;

// The shortest edit between two lists of lines (Myers), given up where it would take too long:
// then everything between what both have at the ends counts as replaced.
export function edits(before, after) {
  let start = 0, endA = before.length, endB = after.length;
  while (start < endA && start < endB && before[start] === after[start]) start += 1;
  while (endA > start && endB > start && before[endA - 1] === after[endB - 1]) { endA -= 1; endB -= 1; }
  const a = before.slice(start, endA), b = after.slice(start, endB);
  const middle = a.length && b.length && a.length + b.length <= LINES_MAX ? myers(a, b) : null;
  const steps = [];
  for (let i = 0; i < start; i += 1) steps.push(["=", i, i]);
  if (middle) for (const [kind, i, j] of middle) steps.push([kind, i + start, j + start]);
  else {
    for (let i = start; i < endA; i += 1) steps.push(["-", i, start]);
    for (let j = start; j < endB; j += 1) steps.push(["+", endA, j]);
  }
  for (let k = 0; k < before.length - endA; k += 1) steps.push(["=", endA + k, endB + k]);
  return steps;
}

function myers(a, b) {
  const n = a.length, m = b.length, most = Math.min(n + m, EDITS_MAX), shift = most + 1;
  const furthest = new Int32Array(2 * most + 3), trace = [];
  for (let d = 0; d <= most; d += 1) {
    trace.push(furthest.slice());
    for (let k = -d; k <= d; k += 2) {
      let x = k === -d || (k !== d && furthest[shift + k - 1] < furthest[shift + k + 1]) ? furthest[shift + k + 1] : furthest[shift + k - 1] + 1;
      let y = x - k;
      while (x < n && y < m && a[x] === b[y]) { x += 1; y += 1; }
      furthest[shift + k] = x;
      if (x >= n && y >= m) return backwards(trace, d, n, m, shift);
    }
  }
  return null;
}

function backwards(trace, d, n, m, shift) {
  const steps = [];
  let x = n, y = m;
  for (; d >= 0; d -= 1) {
    const furthest = trace[d], k = x - y;
    const up = k === -d || (k !== d && furthest[shift + k - 1] < furthest[shift + k + 1]);
    const before = up ? k + 1 : k - 1, fromX = d === 0 ? 0 : furthest[shift + before], fromY = d === 0 ? 0 : fromX - before;
    while (x > fromX && y > fromY) { x -= 1; y -= 1; steps.push(["=", x, y]); }
    if (d > 0) { if (up) { y -= 1; steps.push(["+", x, y]); } else { x -= 1; steps.push(["-", x, y]); } }
  }
  return steps.reverse();
}

// What differs within two lines: what both begin and end with is left plain.
function marked(text, other) {
  if (text.length > WIDE) return [text.slice(0, WIDE), h("i", { class: "faint" }, ` … ${(text.length - WIDE).toLocaleString("en")} more characters`)];
  if (other === null || other === undefined || other.length > WIDE) return [text];
  let start = 0, end = 0;
  const most = Math.min(text.length, other.length);
  while (start < most && text[start] === other[start]) start += 1;
  while (end < most - start && text[text.length - 1 - end] === other[other.length - 1 - end]) end += 1;
  if (start + end < text.length * 0.2) return [text];
  return [text.slice(0, start), h("em", null, text.slice(start, text.length - end)), text.slice(text.length - end)];
}

function cell(kind, line, other) {
  if (!line) return h("div", { class: "none" }, h("span"), h("span"));
  return h("div", { class: kind }, h("span", null, line[0]), h("span", null, marked(visible(line[1]), other ? visible(other[1]) : null)));
}

// A row is [what was, what is], each [number, text] or nothing; or words between rows.
function drawn(row) {
  if (typeof row === "string") return [h("div", { class: "gap" }, row)];
  const [a, b, equal] = row;
  return equal ? [cell("same", a), cell("", b)] : [cell("del", a, b), cell("add", b, a)];
}

// Of a long difference only the rows that can be seen are in the page: parts of parts, so that the
// page has few of them to lay out, however long it is.
function table(rows, windows) {
  if (rows.length <= ROWS_AT_A_TIME) return h("div", { class: "diff" }, rows.map(drawn));
  const several = windows ?? new Windows(), parts = [];
  const step = rows.length > ROWS_AT_A_TIME * PARTS_MAX ? ROWS_AT_A_TIME * PARTS_MAX : ROWS_AT_A_TIME;
  for (let at = 0; at < rows.length; at += step) {
    const some = rows.slice(at, at + step);
    parts.push(several.add(h("div"), some.length * ROW, () => table(some, several)));
  }
  return h("div", { class: "long" }, parts);
}

// Rows, with what was removed beside what was added in its place.
class Rows {
  constructor() { this.rows = []; this.removed = []; this.added = []; }
  flush() {
    for (let i = 0; i < Math.max(this.removed.length, this.added.length); i += 1) this.rows.push([this.removed[i], this.added[i]]);
    this.removed = [];
    this.added = [];
  }
  equal(a, b, text) { this.flush(); this.rows.push([[a, text], [b, text], true]); }
  words(text) { this.flush(); this.rows.push(text); }
}

const split = (text) => { const lines = text.split("\n"); if (lines.at(-1) === "") lines.pop(); return lines; };

export function sideBySide(beforeText, afterText, context = 4) {
  const before = split(beforeText), after = split(afterText), steps = edits(before, after);
  if (!steps.some(([kind]) => kind !== "=")) return h("div", { class: "empty" }, "Nothing differs.");
  const near = new Set(), found = new Rows();
  steps.forEach(([kind], at) => { if (kind !== "=") for (let i = at - context; i <= at + context; i += 1) near.add(i); });
  let skipped = 0;
  const gap = () => { if (skipped) found.words(`${skipped} equal line${skipped === 1 ? "" : "s"}`); skipped = 0; };
  steps.forEach(([kind, i, j], at) => {
    if (kind === "-") { gap(); found.removed.push([i + 1, before[i]]); }
    else if (kind === "+") { gap(); found.added.push([j + 1, after[j]]); }
    else if (!near.has(at)) { found.flush(); skipped += 1; }
    else { gap(); found.equal(i + 1, j + 1, before[i]); }
  });
  found.flush();
  gap();
  return table(found.rows);
}

// From the lines of a unified diff.
export function fromLines(lines, windows, truncated = false) {
  const found = new Rows();
  let a = 0, b = 0, inside = false;
  for (const line of lines) {
    const range = line.startsWith("@@") ? /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line) : null;
    if (range) { [a, b] = [Number(range[1]), Number(range[2])]; inside = true; found.words(line); }
    else if (!inside) continue;
    else if (line.startsWith("-")) { found.removed.push([a, line.slice(1)]); a += 1; }
    else if (line.startsWith("+")) { found.added.push([b, line.slice(1)]); b += 1; }
    else if (line.startsWith("\\")) found.words(line.slice(2));
    else { found.equal(a, b, line.slice(1)); a += 1; b += 1; }
  }
  found.flush();
  if (truncated) found.words("The rest of the difference is not shown: it is too long.");
  return table(found.rows, windows);
}

// As a question to a person carries it.
export const fromUnified = (text, truncated) => fromLines(split(text), null, truncated);
