// Two texts side by side, or a unified diff made readable.

import { h } from "./dom.js";
import { visible } from "./words.js";

const LINES_MAX = 20000, EDITS_MAX = 2000;

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
  if (other === null || other === undefined || text.length > 2000) return [text];
  let start = 0, end = 0;
  const most = Math.min(text.length, other.length);
  while (start < most && text[start] === other[start]) start += 1;
  while (end < most - start && text[text.length - 1 - end] === other[other.length - 1 - end]) end += 1;
  if (start + end < text.length * 0.2) return [text];
  return [text.slice(0, start), h("em", null, text.slice(start, text.length - end)), text.slice(text.length - end)];
}

function cell(kind, number, content) {
  return h("div", { class: kind }, h("span", null, number ?? ""), h("span", null, content));
}

function pairs(rows, removed, added) {
  for (let i = 0; i < Math.max(removed.length, added.length); i += 1) {
    const a = removed[i], b = added[i];
    rows.push(a ? cell("del", a[0], marked(a[1], b?.[1])) : cell("none"));
    rows.push(b ? cell("add", b[0], marked(b[1], a?.[1])) : cell("none"));
  }
}

const split = (text) => { const lines = visible(text).split("\n"); if (lines.at(-1) === "") lines.pop(); return lines; };

export function sideBySide(beforeText, afterText, context = 4) {
  const before = split(beforeText), after = split(afterText), steps = edits(before, after);
  const near = new Set();
  steps.forEach(([kind], at) => { if (kind !== "=") for (let i = at - context; i <= at + context; i += 1) near.add(i); });
  const rows = [];
  let removed = [], added = [], skipped = 0;
  const flush = () => { pairs(rows, removed, added); removed = []; added = []; };
  const gap = () => { if (skipped) rows.push(h("div", { class: "gap" }, `${skipped} equal line${skipped === 1 ? "" : "s"}`)); skipped = 0; };
  steps.forEach(([kind, i, j], at) => {
    if (kind === "-") { gap(); removed.push([i + 1, before[i]]); }
    else if (kind === "+") { gap(); added.push([j + 1, after[j]]); }
    else {
      flush();
      if (!near.has(at)) { skipped += 1; return; }
      gap();
      rows.push(cell("", i + 1, before[i]), cell("", j + 1, after[j]));
    }
  });
  flush();
  gap();
  if (!steps.some(([kind]) => kind !== "=")) return h("div", { class: "empty" }, "Nothing differs.");
  return h("div", { class: "diff" }, rows);
}

// The same from a unified diff, as a question to a person carries it.
export function fromUnified(text, truncated) {
  const rows = [];
  let removed = [], added = [], a = 0, b = 0, inside = false;
  const flush = () => { pairs(rows, removed, added); removed = []; added = []; };
  for (const line of split(text)) {
    const range = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
    if (range) { flush(); [a, b] = [Number(range[1]), Number(range[2])]; inside = true; rows.push(h("div", { class: "gap" }, line)); }
    else if (!inside) continue;
    else if (line.startsWith("-")) { removed.push([a, line.slice(1)]); a += 1; }
    else if (line.startsWith("+")) { added.push([b, line.slice(1)]); b += 1; }
    else if (line.startsWith("\\")) { flush(); rows.push(h("div", { class: "gap" }, line.slice(2))); }
    else { flush(); rows.push(cell("", a, line.slice(1)), cell("", b, line.slice(1))); a += 1; b += 1; }
  }
  flush();
  if (truncated) rows.push(h("div", { class: "gap" }, "The rest of the difference is not shown: it is too long."));
  return h("div", { class: "diff" }, rows);
}
