// Markdown as elements, built one by one: what is HTML in a file is shown as the text it is, a link
// leads to a file of this root or, in a window of its own, to the web, and nothing else; a picture
// from elsewhere is not loaded.

import { h } from "./dom.js";
import { rawAddress } from "./api.js";
import { link } from "./router.js";
import { parentOf, visible } from "./words.js";
import { painter } from "./highlight.js";

const DEEPEST = 12;

export function markdown(text, path) {
  const lines = visible(text.replace(/\r\n?/g, "\n")).split("\n");
  return h("article", { class: "prose" }, blocks(lines, path, 0));
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+-]*)/, HEADING = /^ {0,3}(#{1,6})\s+(.*)$/, RULE = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(\s+|$)/, QUOTE = /^ {0,3}> ?/;

function blocks(lines, path, depth) {
  const made = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (!line.trim()) { at += 1; continue; }
    const block = depth < DEEPEST ? BLOCKS.map((each) => each(lines, at, path, depth)).find(Boolean) : null;
    const [element, next] = block ?? paragraph(lines, at, path, depth);
    made.push(element);
    at = next;
  }
  return made;
}

const CALLED = { python: "py", javascript: "js", typescript: "ts", shell: "sh", console: "sh", rust: "rs", ruby: "rb" };
const BLOCKS = [fence, heading, rule, quote, list, table];

function fence(lines, at) {
  const opened = FENCE.exec(lines[at]);
  if (!opened) return null;
  let end = at + 1;
  while (end < lines.length && !lines[end].trim().startsWith(opened[1])) end += 1;
  const named = opened[2].toLowerCase(), paint = painter(`.${CALLED[named] ?? named}`);
  const painted = lines.slice(at + 1, end).map((line) => [paint(line).map(([text, kind]) => (kind ? h("span", { class: kind }, text) : text)), "\n"]);
  return [h("pre", { class: "code" }, painted), end + 1];
}

function heading(lines, at, path) {
  const found = HEADING.exec(lines[at]);
  return found && [h(`h${found[1].length}`, null, inline(unclosed(found[2]), path)), at + 1];
}

// A heading without the marks that close it. No pattern: one that looks for an end takes the square
// of what it has to look through, or worse.
function unclosed(text) {
  let end = text.trimEnd().length;
  while (text[end - 1] === "#") end -= 1;
  return text.slice(0, end).trim();
}

function rule(lines, at) { return RULE.test(lines[at]) ? [h("hr"), at + 1] : null; }

function quote(lines, at, path, depth) {
  if (!QUOTE.test(lines[at])) return null;
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  return [h("blockquote", null, blocks(lines.slice(at, end).map((line) => line.replace(QUOTE, "")), path, depth + 1)), end];
}

function list(lines, at, path, depth) {
  const first = ITEM.exec(lines[at]);
  if (!first) return null;
  const ordered = /\d/.test(first[2]), items = [];
  let end = at;
  while (end < lines.length) {
    const found = ITEM.exec(lines[end]);
    if (!found || /\d/.test(found[2]) !== ordered || RULE.test(lines[end])) break;
    const inset = found[1].length + found[2].length + Math.max(1, Math.min(4, found[3].length)), body = [lines[end].slice(inset)];
    end += 1;
    while (end < lines.length && (lines[end].startsWith(" ".repeat(inset)) || (!lines[end].trim() && lines[end + 1]?.startsWith(" ".repeat(inset))) || (lines[end].trim() && body.at(-1) && !startsBlock(lines[end])))) { body.push(lines[end].startsWith(" ".repeat(inset)) ? lines[end].slice(inset) : lines[end].trim()); end += 1; }
    items.push(item(body, path, depth));
    if (!lines[end]?.trim() && ITEM.test(lines[end + 1] ?? "")) end += 1;
  }
  return [h(ordered ? "ol" : "ul", { start: ordered ? parseInt(first[2], 10) : null }, items), end];
}

function item(body, path, depth) {
  const task = /^\[([ xX])\] /.exec(body[0]);
  if (task) body[0] = body[0].slice(4);
  const inside = blocks(body, path, depth + 1);
  const tight = inside.length && inside[0].tagName === "P" ? [...inside[0].childNodes] : inside.slice(0, 1);
  return h("li", { class: task ? "task" : null }, task ? h("input", { type: "checkbox", disabled: true, checked: task[1] !== " " }) : null, tight, inside.slice(1));
}

// Wider than anybody reads: what has more columns is shown as the text it is.
const COLUMNS_MAX = 200;
const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim());

function table(lines, at, path) {
  const under = lines[at].includes("|") ? cells(lines[at + 1] ?? "") : [];
  if (!under.length || under.length > COLUMNS_MAX || !under.every((cell) => /^:?-+:?$/.test(cell))) return null;
  const cut = (line) => cells(line).slice(0, under.length).map((cell) => inline(cell.replaceAll("\\|", "|"), path));
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|") && lines[end].trim()) end += 1;
  return [h("table", null, h("thead", null, h("tr", null, cut(lines[at]).map((cell) => h("th", null, cell)))), h("tbody", null, lines.slice(at + 2, end).map((line) => h("tr", null, cut(line).map((cell) => h("td", null, cell)))))), end];
}

const startsBlock = (line) => [FENCE, HEADING, RULE, QUOTE, ITEM].some((each) => each.test(line));

const UNDERLINE = /^ {0,3}(=+|-+)\s*$/;

function paragraph(lines, at, path) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !startsBlock(lines[end]) && !UNDERLINE.test(lines[end])) end += 1;
  const under = UNDERLINE.exec(lines[end] ?? "");
  if (under) return [h(under[1][0] === "=" ? "h1" : "h2", null, inline(lines.slice(at, end).join(" ").trim(), path)), end + 1];
  return [h("p", null, inline(lines.slice(at, end).join("\n").trim(), path)), end];
}

// Inside a paragraph. Each pattern is tried where the text stands; what fits none is text.
const INLINE = [
  [/^(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)/, ([, , code]) => h("code", null, code.trim())],
  [/^!\[([^\]\n]*)\]\(\s*<?((?:\([^()\s]*\)|[^()\s>])+)>?[^)\n]*\)/, ([, words, target], path) => picture(words, target, path)],
  [/^\[([^\]\n]+)\]\(\s*<?((?:\([^()\s]*\)|[^()\s>])+)>?[^)\n]*\)/, ([, words, target], path, depth) => anchor(inline(words, path, depth), words, target, path)],
  [/^<(https?:\/\/[^\s<>]+)>/, ([, target], path) => anchor(target, target, target, path)],
  [/^https?:\/\/[^\s<>()[\]"'`]*[^\s<>()[\]"'`.,;:!?]/, ([target], path) => anchor(target, target, target, path)],
  [/^(\*\*|__)(?=\S)([\s\S]*?\S)\1/, ([, , words], path, depth) => h("strong", null, inline(words, path, depth))],
  [/^~~(?=\S)([\s\S]*?\S)~~/, ([, words], path, depth) => h("del", null, inline(words, path, depth))],
  [/^([*_])(?=\S)([\s\S]*?[^\s*_])\1(?![\p{L}\p{N}])/u, ([, , words], path, depth) => h("em", null, inline(words, path, depth))],
  [/^ {2,}\n|^\\\n/, () => h("br")],
  [/^\\([!-/:-@[-`{-~])/, ([, mark]) => mark],
];
// Longer than anybody writes a paragraph: looking for pairs in it would hold up the page.
const INLINE_MAX = 5000;
const PLAIN = /^(?:[\p{L}\p{N}][\p{L}\p{N}_]*|[\s\S])/u;

function inline(text, path, depth = 0) {
  if (text.length > INLINE_MAX || depth > DEEPEST) return [text];
  const made = [];
  let words = "", rest = text;
  while (rest) {
    const at = INLINE.map(([pattern, make]) => [pattern.exec(rest), make]).find(([found]) => found);
    if (at) {
      if (words) made.push(words);
      words = "";
      made.push(at[1](at[0], path, depth + 1));
      rest = rest.slice(at[0][0].length);
    } else {
      const [word] = PLAIN.exec(rest);
      words += word;
      rest = rest.slice(word.length);
    }
  }
  if (words) made.push(words);
  return made;
}

// Where a link of this file leads within the root, or null where it leads out of it.
function inside(target, path) {
  if (/^[a-z][a-z0-9+.-]*:/i.test(target) || target.startsWith("//") || target.startsWith("#")) return null;
  let way;
  try { way = decodeURIComponent(target.split(/[?#]/)[0]); } catch { return null; }
  const parts = way.startsWith("/") || parentOf(path) === "." ? [] : parentOf(path).split("/");
  for (const part of way.split("/")) {
    if (part === "..") { if (!parts.length) return null; parts.pop(); }
    else if (part && part !== ".") parts.push(part);
  }
  return parts.join("/") || ".";
}

function anchor(content, words, target, path) {
  if (/^https?:\/\//i.test(target)) return h("a", { href: target, target: "_blank", rel: "noopener noreferrer", title: target }, content);
  const place = inside(target, path);
  return place === null ? h("span", { title: target }, content) : h("a", { href: link("file", place), title: place }, content);
}

function picture(words, target, path) {
  const place = inside(target, path);
  return place === null ? h("span", { class: "chip", title: target }, words || "picture") : h("img", { src: rawAddress(place), alt: words, loading: "lazy" });
}
