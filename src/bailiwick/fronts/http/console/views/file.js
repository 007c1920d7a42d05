// One file: read in windows, or edited whole; a change underneath is told, never overwritten.

import { h, fill, icon } from "../dom.js";
import * as api from "../api.js";
import { crumbs } from "../crumbs.js";
import { has, on } from "../state.js";
import { go, link } from "../router.js";
import { complain, confirm, dialog, toast } from "../dialogs.js";
import { nameOf, parentOf, plain, size, visible } from "../words.js";
import { painter } from "../highlight.js";
import { markdown } from "../markdown.js";
import { sideBySide } from "../difference.js";
import { VirtualList } from "../virtual.js";
import { download } from "./files.js";

const LINES = 1000;
const PROSE = new Set(["md", "markdown"]);
const PICTURES = new Set(["png", "jpg", "jpeg", "gif", "webp", "bmp", "ico", "avif"]);

export function view({ path, query }) {
  const page = { path, body: h("section", { class: "card viewer" }), meta: h("div", { class: "meta" }), notice: h("div"), buttons: h("div", { class: "bar" }), line: Number(query.get("line")) || 0, dirty: false };
  const element = h("div", { class: "page" }, h("div", { class: "bar" }, crumbs(path), page.buttons), page.meta, page.notice, page.body);
  const forget = on("change", (change) => { if (change.path === path || change.origin === path) changed(page, change); });
  open(page, query.get("edit") === "yes");
  return {
    element, title: nameOf(path),
    key: (event) => { if (event.key === "e" && page.text !== undefined) { edit(page); return true; } if (event.key === "Backspace") { go("files", parentOf(path)); return true; } return false; },
    leaving: async () => !page.dirty || Boolean(await confirm("Leave without saving?", "What you changed in this file is not saved.", "Leave", "danger")),
    close: () => { forget(); page.list?.close(); },
  };
}

async function open(page, editing = false) {
  page.editing = editing;
  const extension = page.path.toLowerCase().split(".").pop();
  if (PICTURES.has(extension)) return picture(page);
  try {
    const first = await api.get("/file", { path: page.path, line: 1, limit: LINES });
    Object.assign(page, { hash: null, cursor: first.nextCursor, lines: first.content.split("\n"), first, text: undefined });
    if (!first.nextCursor) page.lines = first.content.split("\n");
    page.sizeBytes = first.sizeBytes;
    // A text field has one kind of line end: what it would rewrite unseen is not edited here.
    page.editable = first.sizeBytes <= 256 * 1024 && first.lineEnding !== "mixed";
    describe(page, [size(first.sizeBytes), first.encoding + (first.bom ? " with BOM" : ""), first.lineEnding, first.matchedIgnore ? "ignored" : null]);
    if (page.editable) {
      const whole = await api.get("/file", { path: page.path });
      page.text = whole.content;
      page.hash = whole.hash;
      page.editable = !/\r(?!\n)/.test(whole.content);
    }
    if (editing && page.editable) return edit(page);
    return read(page);
  } catch (error) {
    if (error.kind === "is_a_directory") { go("files", page.path); return; }
    if (error.kind === "binary_file") return binary(page);
    fill(page.body, h("div", { class: "empty" }, icon("file"), h("b", null, plain(error.message)), h("span", null, plain([error.hint, error.decidedBy && `decided by ${error.decidedBy}`].filter(Boolean).join(" · ")))));
  }
}

function describe(page, facts) {
  fill(page.meta, facts.filter(Boolean).map((each) => h("span", null, plain(each))));
}

function buttons(page, ...first) {
  fill(page.buttons, first,
    has("history") ? h("a", { class: "button", href: link("history", page.path) }, icon("clock"), "History") : null,
    h("button", { class: "button", onClick: () => download(page.path) }, icon("down"), "Download"));
}

function read(page) {
  page.dirty = false;
  const painted = [];
  const paint = painter(nameOf(page.path));
  const list = (page.list = new VirtualList({
    rowHeight: 20,
    render: (at) => {
      while (painted.length <= at) painted.push(paint(visible(page.lines[painted.length])));
      return h("div", { class: `line code${at + 1 === page.line ? " hit" : ""}` }, h("span", null, at + 1), h("span", null, painted[at].map(([text, kind]) => (kind ? h("span", { class: kind }, text) : text))));
    },
    more: () => further(page, list),
  }));
  buttons(page, beside(page), page.editable ? h("button", { class: "button main", onClick: () => edit(page) }, icon("pen"), "Edit") : null);
  fill(page.body, page.rendered ? h("div", { class: "beside" }, list.element, h("div", { class: "scroll" }, markdown(page.text, page.path))) : list.element);
  list.setCount(page.lines.length);
  if (page.line) reach(page, list);
}

// Prose is read as its writer meant it, beside what stands in the file.
function beside(page) {
  if (page.text === undefined || !PROSE.has(page.path.toLowerCase().split(".").pop())) return null;
  return h("button", { class: "button", "aria-pressed": String(Boolean(page.rendered)), onClick: () => { page.rendered = !page.rendered; page.list?.close(); read(page); } }, icon("book"), "Rendered");
}

async function reach(page, list) {
  for (let tries = 0; page.line > page.lines.length && page.cursor && tries < 200; tries += 1) await further(page, list);
  list.element.scrollTop = Math.max(0, (page.line - 8) * 20);
}

async function further(page, list) {
  if (!page.cursor || page.loading) return;
  page.loading = true;
  try {
    const next = await api.get("/file", { path: page.path, cursor: page.cursor, limit: LINES });
    page.lines.push(...next.content.split("\n"));
    page.cursor = next.nextCursor;
    list.setCount(page.lines.length);
  } catch (error) { page.cursor = null; if (error.kind !== "hash_mismatch") complain(error); }
  page.loading = false;
}

async function binary(page) {
  page.text = undefined;
  try {
    const start = await api.get("/file/bytes", { path: page.path, maxBytes: 65536 });
    const bytes = Uint8Array.from(atob(start.contentBase64), (each) => each.charCodeAt(0));
    describe(page, [size(start.sizeBytes), "not text", start.truncated ? "the first 64 KiB are shown" : null]);
    buttons(page);
    const list = (page.list = new VirtualList({ rowHeight: 20, render: (at) => h("div", { class: "line code" }, h("span", null, (at * 16).toString(16).padStart(6, "0")), h("span", null, hexadecimal(bytes.subarray(at * 16, at * 16 + 16)))) }));
    fill(page.body, list.element);
    list.setCount(Math.ceil(bytes.length / 16));
  } catch (error) { complain(error); }
}

function hexadecimal(bytes) {
  const codes = [...bytes].map((each) => each.toString(16).padStart(2, "0")).join(" ").padEnd(50);
  return codes + [...bytes].map((each) => (each > 31 && each < 127 ? String.fromCharCode(each) : "·")).join("");
}

function picture(page) {
  buttons(page);
  const image = h("img", { alt: plain(nameOf(page.path)), src: api.rawAddress(page.path) });
  image.addEventListener("load", () => describe(page, [`${image.naturalWidth} × ${image.naturalHeight}`]));
  image.addEventListener("error", () => binary(page));
  fill(page.body, h("div", { class: "picture" }, image));
}

// --- editing -------------------------------------------------------------------------------------

function edit(page) {
  const area = h("textarea", { class: "code", spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": `Text of ${plain(page.path)}` });
  const under = h("pre", { class: "code", "aria-hidden": "true" });
  const gutter = h("div", { class: "gutter code", "aria-hidden": "true" });
  area.value = page.text;
  const draw = () => {
    const paint = painter(nameOf(page.path)), lines = area.value.split("\n");
    fill(under, lines.map((line, at) => [at ? "\n" : "", paint(line).map(([text, kind]) => (kind ? h("span", { class: kind }, text) : text))]), "\n");
    gutter.textContent = lines.map((_, at) => at + 1).join("\n");
  };
  const save = h("button", { class: "button main", disabled: true, onClick: () => store(page, area.value) }, icon("check"), "Save");
  area.addEventListener("input", () => { page.dirty = area.value !== page.text; save.disabled = !page.dirty; draw(); });
  area.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "s") { event.preventDefault(); if (page.dirty) store(page, area.value); }
    if (event.key === "Tab" && !event.shiftKey) { event.preventDefault(); area.setRangeText("    ", area.selectionStart, area.selectionEnd, "end"); area.dispatchEvent(new Event("input")); }
  });
  buttons(page, h("button", { class: "button", onClick: () => { page.dirty = false; open(page); } }, "Cancel"), save);
  page.area = area;
  fill(page.body, h("div", { class: "editor" }, gutter, h("div", { class: "paper" }, under, area)));
  draw();
  area.focus();
  area.setSelectionRange(0, 0);
}

async function store(page, content, expectedHash = page.hash) {
  try {
    const written = await api.post("/file/write", { path: page.path, content, expectedHash, encoding: page.first.encoding, lineEnding: null });
    page.saved = written.version;
    page.dirty = false;
    fill(page.notice);
    toast("Saved");
    await open(page);
  } catch (error) {
    if (error.kind === "hash_mismatch") await conflict(page, content);
    else complain(error);
  }
}

// Somebody else wrote the file since it was opened: both texts are shown, and nothing is guessed.
async function conflict(page, mine) {
  let theirs;
  try { theirs = await api.get("/file", { path: page.path }); }
  catch (error) {
    if (error.kind !== "path_not_found") { complain(error); return; }
    if (await confirm("The file was removed", "Somebody removed it while you were editing. Write it anew?", "Write it")) await store(page, mine, null);
    return;
  }
  const choice = await dialog({
    title: "This file was changed meanwhile", wide: true,
    body: [h("p", { class: "soft" }, "Left: as it is now. Right: yours. Nothing was written."), h("div", { class: "card conflict" }, sideBySide(theirs.content, mine))],
    actions: [{ label: "Keep editing", value: null }, { label: "Take theirs", value: "theirs" }, { label: "Write mine over it", kind: "danger", value: "mine" }],
  });
  if (choice === "mine") await store(page, mine, theirs.hash);
  else if (choice === "theirs") { page.dirty = false; await open(page, true); }
}

function changed(page, change) {
  if (page.area?.isConnected) {
    if (change.version && change.version === page.saved) return;
    fill(page.notice, h("div", { class: "notice" }, h("b", null, change.kind === "deleted" ? "This file was removed" : "This file was changed"), change.subject ? `by ${plain(change.subject)}.` : "by another program.", "Saving will show both texts."));
    return;
  }
  if (change.kind === "deleted") fill(page.notice, h("div", { class: "notice bad" }, "This file was removed."));
  else {
    clearTimeout(page.timer);
    // Whoever has begun to write meanwhile keeps what they write.
    page.timer = setTimeout(() => { if (!page.area?.isConnected) { page.list?.close(); open(page, page.editing); } }, 80);
  }
}
