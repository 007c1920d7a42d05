// What differs, as rows of [what was, what is], each [number, text, characters left out] or nothing,
// or words between rows. Nothing here knows of a page: it is also done beside it, in `reader.js`.

const LINES_MAX = 20000, EDITS_MAX = 2000, WIDE = 2000, PARTS_MAX = 40;

// So many rows, or pieces of a file, are in the page or not as one; what is longer is parts of parts.
export const AT_A_TIME = 25;

// What is not drawn at once, as parts [from, to]; none where it is.
export function parts(from, to) {
  if (to - from <= AT_A_TIME) return [];
  const step = to - from > AT_A_TIME * PARTS_MAX ? AT_A_TIME * PARTS_MAX : AT_A_TIME, found = [];
  for (let at = from; at < to; at += step) found.push([at, Math.min(to, at + step)]);
  return found;
}

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

// Nobody reads all of a line of a million characters: of such a one the beginning is told.
const line = (number, text) => (text.length > WIDE ? [number, text.slice(0, WIDE), text.length - WIDE] : [number, text, 0]);

// Rows, with what was removed beside what was added in its place.
class Rows {
  constructor() { this.rows = []; this.removed = []; this.added = []; }
  flush() {
    for (let i = 0; i < Math.max(this.removed.length, this.added.length); i += 1) this.rows.push([this.removed[i], this.added[i]]);
    this.removed = [];
    this.added = [];
  }
  remove(number, text) { this.removed.push(line(number, text)); }
  add(number, text) { this.added.push(line(number, text)); }
  equal(a, b, text) { this.flush(); this.rows.push([line(a, text), line(b, text), true]); }
  words(text) { this.flush(); this.rows.push(text); }
}

export const split = (text) => { const lines = text.split("\n"); if (lines.at(-1) === "") lines.pop(); return lines; };

// Of two texts, with some lines around what differs; none where nothing does.
export function between(beforeText, afterText, context = 4) {
  const before = split(beforeText), after = split(afterText), steps = edits(before, after);
  if (!steps.some(([kind]) => kind !== "=")) return [];
  const near = new Set(), found = new Rows();
  steps.forEach(([kind], at) => { if (kind !== "=") for (let i = at - context; i <= at + context; i += 1) near.add(i); });
  let skipped = 0;
  const gap = () => { if (skipped) found.words(`${skipped} equal line${skipped === 1 ? "" : "s"}`); skipped = 0; };
  steps.forEach(([kind, i, j], at) => {
    if (kind === "-") { gap(); found.remove(i + 1, before[i]); }
    else if (kind === "+") { gap(); found.add(j + 1, after[j]); }
    else if (!near.has(at)) { found.flush(); skipped += 1; }
    else { gap(); found.equal(i + 1, j + 1, before[i]); }
  });
  found.flush();
  gap();
  return found.rows;
}

// Of the lines of a unified diff.
export function unified(lines, truncated = false) {
  const found = new Rows();
  let a = 0, b = 0, inside = false;
  for (const each of lines) {
    const range = each.startsWith("@@") ? /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(each) : null;
    if (range) { [a, b] = [Number(range[1]), Number(range[2])]; inside = true; found.words(each); }
    else if (!inside) continue;
    else if (each.startsWith("-")) { found.remove(a, each.slice(1)); a += 1; }
    else if (each.startsWith("+")) { found.add(b, each.slice(1)); b += 1; }
    else if (each.startsWith("\\")) found.words(each.slice(2));
    else { found.equal(a, b, each.slice(1)); a += 1; b += 1; }
  }
  found.flush();
  if (truncated) found.words("The rest of the difference is not shown: it is too long.");
  return found.rows;
}
