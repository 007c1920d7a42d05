// The versions of one place: who changed it, when, what; and back to any of them.

import { h, fill, icon } from "../dom.js";
import * as api from "../api.js";
import { crumbs } from "../crumbs.js";
import { link } from "../router.js";
import { complain, confirm, toast } from "../dialogs.js";
import { ago, moment, nameOf, plain, size } from "../words.js";
import { sideBySide } from "../difference.js";
import { on } from "../state.js";

const VERSIONS = 200;
const TONES = { created: "good", deleted: "bad", moved: "warn", updated: "accent" };

export function view({ path }) {
  const page = { path, versions: [], chosen: 0, list: h("div", { class: "card choices" }), detail: h("div", { class: "card" }) };
  const element = h("div", { class: "page" },
    h("div", { class: "bar" }, crumbs(path), h("a", { class: "button", href: link("file", path) }, icon("eye"), "Open now")),
    h("div", { class: "split" }, page.list, page.detail));
  const forget = on("change", (change) => { if (change.path === path) load(page); });
  load(page);
  return { element, title: `History of ${nameOf(path)}`, close: forget, key: (event) => step(event, page) };
}

async function load(page) {
  try {
    const answer = await api.get("/history", { path: page.path, limit: VERSIONS });
    page.versions = answer.versions;
    page.cursor = answer.nextCursor;
    draw(page);
    if (page.versions.length) await show(page, Math.min(page.chosen, page.versions.length - 1));
    else fill(page.detail, h("div", { class: "empty" }, icon("clock"), "Nothing was changed here yet."));
  } catch (error) { fill(page.detail, h("div", { class: "empty" }, icon("clock"), h("b", null, plain(error.message)), plain(error.hint ?? ""))); }
}

function draw(page) {
  fill(page.list, page.versions.map((each, at) => h("button", { class: "choice", "aria-current": at === page.chosen ? "true" : "false", onClick: () => show(page, at) },
    h("b", null, h("span", { class: `chip ${TONES[each.kind] ?? ""}` }, each.kind), " ", each.timeMs ? ago(each.timeMs) : ""),
    h("small", null, plain(each.subject || "another program")), h("small", null, `${each.timeMs ? moment(each.timeMs) : ""} · ${size(each.sizeBytes)}`))),
    page.cursor ? h("button", { class: "choice", onClick: () => older(page) }, "Older versions") : null);
}

async function older(page) {
  const { cursor, versions } = page;
  try {
    const answer = await api.get("/history", { path: page.path, limit: VERSIONS, cursor });
    if (page.versions !== versions || page.cursor !== cursor) return; // it was read anew meanwhile
    page.versions = [...versions, ...answer.versions];
    page.cursor = answer.nextCursor;
    draw(page);
  } catch (error) { complain(error); }
}

function step(event, page) {
  const move = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
  if (!move || !page.versions.length) return false;
  show(page, Math.max(0, Math.min(page.versions.length - 1, page.chosen + move)));
  return true;
}

async function textAt(path, version) {
  try { return (await api.get("/file", { path, asOf: version })).content; }
  catch (error) { if (error.kind === "path_not_found" || error.kind === "is_a_directory") return ""; throw error; }
}

async function show(page, at) {
  page.chosen = at;
  draw(page);
  // What it was before is told by the version before it.
  if (at === page.versions.length - 1 && page.cursor) await older(page);
  const version = page.versions[at], before = page.versions[at + 1];
  const restore = h("button", { class: "button", onClick: () => bringBack(page, version) }, icon("back"), "Restore this version");
  const head = h("div", { class: "question" }, h("div", { class: "bar" }, h("h2", { class: "grow" }, version.timeMs ? moment(version.timeMs) : `Version ${version.version}`), restore),
    h("div", { class: "meta" }, h("span", null, plain(version.subject || "another program")), version.verb ? h("span", null, plain(version.verb)) : null, h("span", null, `request ${plain(version.requestId || "–")}`), version.hash ? h("span", { class: "mono" }, version.hash.slice(7, 19)) : null));
  const body = h("div", { class: "scroll" }, h("div", { class: "empty" }, "…"));
  fill(page.detail, head, body);
  try {
    const [now, then] = await Promise.all([version.kind === "deleted" ? "" : textAt(page.path, version.version), before && before.kind !== "deleted" ? textAt(page.path, before.version) : ""]);
    if (page.chosen === at) fill(body, sideBySide(then, now));
  } catch (error) { fill(body, h("div", { class: "empty" }, plain(error.message))); }
}

async function bringBack(page, version) {
  if (!(await confirm("Restore?", `${plain(page.path)} becomes what it was ${version.timeMs ? "on " + moment(version.timeMs) : "then"}. What it is now stays in its history.`, "Restore"))) return;
  await api.post("/restore", { path: page.path, version: version.version }).then(() => { toast("Restored"); page.chosen = 0; load(page); }, complain);
}
