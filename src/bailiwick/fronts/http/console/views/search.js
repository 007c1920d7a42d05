// Finding text in files, and files by name.

import { h, fill, icon } from "../dom.js";
import * as api from "../api.js";
import { link } from "../router.js";
import { count, plain, visible } from "../words.js";

const MATCHES = 500;

export function view({ query }) {
  const field = h("input", { class: "input grow", type: "search", placeholder: "Text or pattern", value: query.get("q") ?? "", "aria-label": "Search for" });
  const within = h("input", { class: "input", placeholder: "in files, e.g. *.py", value: query.get("in") ?? "", "aria-label": "In files" });
  const pattern = h("input", { type: "checkbox", checked: query.get("p") === "yes" }), anyCase = h("input", { type: "checkbox", checked: query.get("c") !== "no" }), names = h("input", { type: "checkbox", checked: query.get("n") === "yes" });
  const results = h("div", { class: "hits" }), status = h("p", { class: "soft" });
  let stopper = null;
  const run = async () => {
    const wanted = field.value;
    history.replaceState(null, "", link("search", ".", { q: wanted, in: within.value, p: pattern.checked ? "yes" : "", c: anyCase.checked ? "" : "no", n: names.checked ? "yes" : "" }));
    stopper?.abort();
    if (!wanted) { fill(results); status.textContent = ""; return; }
    stopper = new AbortController();
    status.textContent = "Searching…";
    try {
      if (names.checked) await byName(wanted, results, status, stopper.signal);
      else await byText({ pattern: wanted, literal: !pattern.checked, ignoreCase: anyCase.checked, include: within.value, limit: MATCHES, reportSkipped: "false" }, results, status, stopper.signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(results);
      fill(status, h("span", { class: "notice bad" }, plain(error.message), error.hint ? ` ${plain(error.hint)}` : ""));
    }
  };
  let timer;
  for (const each of [field, within]) each.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(run, 220); });
  for (const each of [pattern, anyCase, names]) each.addEventListener("change", run);
  const element = h("div", { class: "page scrolls" },
    h("div", { class: "bar" }, field, within, h("label", { class: "tick" }, pattern, "pattern"), h("label", { class: "tick" }, anyCase, "any case"), h("label", { class: "tick" }, names, "names only")), status, results);
  setTimeout(() => { field.focus(); if (field.value) run(); });
  return { element, title: "Search", close: () => stopper?.abort() };
}

async function byText(wanted, results, status, signal) {
  const answer = await api.get("/grep", wanted, { signal });
  const files = new Map();
  for (const match of answer.matches) {
    if (!files.has(match.path)) files.set(match.path, []);
    files.get(match.path).push(match);
  }
  status.textContent = `${count(answer.matches.length, "match", "matches")} in ${count(files.size, "file")}${answer.truncated ? ", and more: narrow the search" : ""}`;
  fill(results, [...files].map(([path, matches]) => h("section", { class: "card" }, h("header", null, icon("file"), h("a", { href: link("file", path) }, plain(path)), h("span", { class: "chip" }, matches.length)),
    matches.map((match) => h("a", { class: "hit", href: link("file", path, { line: match.line }) }, h("span", { class: "faint" }, match.line), h("span", null, lit(match, wanted)))))));
}

// The server says where in the line a match begins, in characters; how long it is, only literal text
// tells.
function lit(match, wanted) {
  const letters = [...match.text], at = match.column - 1, length = wanted.literal ? [...wanted.pattern].length : 0;
  if (!(at >= 0) || !length) return visible(match.text);
  const from = Math.max(0, at - 80);
  return [from ? "…" : "", visible(letters.slice(from, at).join("")), h("mark", null, visible(letters.slice(at, at + length).join(""))), visible(letters.slice(at + length, at + length + 400).join(""))];
}

async function byName(wanted, results, status, signal) {
  const glob = /[*?[{]/.test(wanted) ? wanted : `**/*${wanted}*`;
  const answer = await api.get("/glob", { pattern: glob, limit: 1000 }, { signal });
  status.textContent = `${count(answer.matches.length, "name")}${answer.truncated ? ", and more: narrow the search" : ""}`;
  fill(results, h("section", { class: "card" }, answer.matches.map((path) => h("a", { class: "hit", href: link("file", path) }, h("span"), h("span", null, plain(path))))));
}
