// Beside the page: what the server told of files is read here and made rows of, however much it is,
// and the page asks for the few that can be seen. Each message is [number, what, values]; the answer
// is [number, what came of it, or what went wrong].

import { AT_A_TIME, parts, unified } from "./rows.js";

// What was read and is still looked at, by its number.
const kept = new Map();
let numbers = 0;

const read = (bytes) => JSON.parse(new TextDecoder().decode(bytes));

function piece(told, isOthers) {
  const { lines, ...rest } = told;
  return { state: "stands", ...rest, isOthers, rows: lines.length ? unified([told.header, ...lines]) : [] };
}

// What there is to see of a piece: what was agreed to is folded away.
const height = (each) => (each.reviewed === "accepted" ? 0 : Math.max(1, each.rows.length));

const told = (each) => ({ ...each, rows: each.rows.length <= AT_A_TIME ? each.rows : null, rowCount: each.rows.length });

function pieces(key, from, to) {
  const all = kept.get(key).pieces, found = parts(from, to);
  if (!found.length) return { from, pieces: all.slice(from, to).map(told) };
  return { from, parts: found.map(([first, end]) => ({ from: first, to: end, rows: all.slice(first, end).reduce((sum, each) => sum + height(each), 0) })) };
}

const isLeft = (each) => !each.isOthers && each.state === "stands" && !each.reviewed;

const WORK = {
  // One file with all that was told of it; nothing where that was nothing. Where it is what `before`
  // was made of, it keeps that key.
  file: (bytes, path, before) => {
    const answer = read(bytes), found = (answer.changes ?? answer.files).find((each) => each.path === path);
    if (!found) return null;
    const text = JSON.stringify(found);
    if (kept.get(before)?.text === text) return { key: before };
    const { hunks, others = [], ...file } = found, key = numbers += 1;
    const all = [...hunks.map((each) => piece(each, false)), ...others.map((each) => piece(each, true))];
    kept.set(key, { text, pieces: all });
    return { key, file, left: all.filter(isLeft).length, first: pieces(key, 0, all.length) };
  },
  pieces,
  rows: (key, at, from, to) => kept.get(key).pieces[at].rows.slice(from, to),
  // What the pieces are called of which nobody has said anything.
  left: (key) => [...new Set(kept.get(key).pieces.filter(isLeft).map((each) => each.id))],
  drop: (key) => { kept.delete(key); },
};

addEventListener("message", ({ data: [number, what, values] }) => {
  try { postMessage([number, WORK[what](...values), null]); } catch (error) { postMessage([number, null, String(error.message)]); }
});
