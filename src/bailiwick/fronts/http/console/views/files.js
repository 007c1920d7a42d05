// A directory: what is in it, and what a person does with it.

import { h, fill, icon } from "../dom.js";
import * as api from "../api.js";
import { crumbs } from "../crumbs.js";
import { on, has } from "../state.js";
import { go, link } from "../router.js";
import { complain, confirm, popup, prompt, toast } from "../dialogs.js";
import { ago, join, nameOf, parentOf, plain, size } from "../words.js";
import { VirtualList } from "../virtual.js";

const PAGE = 1000;
const ICONS = { directory: "folder", symlink: "link" };
const UPLOAD_BYTES_MAX = 50 * 1024 * 1024;

export function view({ path }) {
  const place = { path, entries: [], shown: [], cursor: null, loading: false, done: false, chosen: 0, filter: "", fresh: new Set() };
  const list = new VirtualList({ rowHeight: 36, render: (at) => row(place, list, at), more: () => load(place, list, status) });
  const status = h("span", { class: "faint" });
  const filter = h("input", { class: "input", placeholder: "Filter names", "aria-label": "Filter names", onInput: () => { place.filter = filter.value.toLowerCase(); narrow(place, list); } });
  const chooser = h("input", { type: "file", multiple: true, hidden: true, onChange: () => { uploadAll(place, chooser.files, uploads); chooser.value = ""; } });
  const uploads = h("div");
  const listing = h("section", { class: "card listing" },
    h("div", { class: "head" }, h("span"), h("span", null, "Name"), h("span", { class: "num" }, "Size"), h("span", { class: "num" }, "Changed"), h("span")),
    list.element);
  listing.addEventListener("dragover", (event) => { event.preventDefault(); listing.classList.add("dropping"); });
  listing.addEventListener("dragleave", () => listing.classList.remove("dropping"));
  listing.addEventListener("drop", (event) => { event.preventDefault(); listing.classList.remove("dropping"); uploadAll(place, event.dataTransfer.files, uploads); });
  const element = h("div", { class: "page" },
    h("div", { class: "bar" }, crumbs(path), status, filter,
      h("button", { class: "button", onClick: () => newFile(place) }, icon("plus"), "File"),
      h("button", { class: "button", onClick: () => newDirectory(place) }, icon("folder"), "Folder"),
      h("button", { class: "button", onClick: () => chooser.click() }, icon("up"), "Upload"), chooser),
    uploads, listing);

  const forget = on("change", (change) => {
    const touched = [change.path, change.origin].filter(Boolean);
    if (!touched.some((each) => parentOf(each) === path || each === path)) return;
    place.fresh.add(nameOf(change.path));
    clearTimeout(place.timer);
    place.timer = setTimeout(() => reload(place, list, status), 60);
  });
  reload(place, list, status);
  return { element, title: nameOf(path) || "Files", key: (event) => key(event, place, list), close: () => { forget(); list.close(); } };
}

async function reload(place, list, status) {
  const generation = (place.generation = (place.generation ?? 0) + 1);
  const wanted = Math.max(PAGE, Math.min(place.entries.length, 2000));
  try {
    const answer = await api.get("/list", { path: place.path, limit: wanted, includeIgnored: true });
    if (generation !== place.generation) return;
    place.entries = answer.entries;
    place.cursor = answer.nextCursor;
    place.done = !answer.nextCursor;
    narrow(place, list);
    tellCount(place, status);
    setTimeout(() => place.fresh.clear(), 1600);
  } catch (error) {
    if (error.kind === "not_a_directory") { go("file", place.path); return; }
    fill(list.space, h("div", { class: "empty" }, icon("folder"), h("b", null, plain(error.message)), h("span", null, plain(error.hint ?? ""))));
  }
}

async function load(place, list, status) {
  if (place.loading || place.done || !place.cursor) return;
  place.loading = true;
  try {
    const answer = await api.get("/list", { path: place.path, limit: PAGE, cursor: place.cursor, includeIgnored: true });
    place.entries.push(...answer.entries);
    place.cursor = answer.nextCursor;
    place.done = !answer.nextCursor;
    narrow(place, list);
    tellCount(place, status);
  } catch (error) { complain(error); place.done = true; }
  place.loading = false;
}

function tellCount(place, status) {
  status.textContent = `${place.entries.length.toLocaleString("en")}${place.done ? "" : "+"} entries`;
}

function narrow(place, list) {
  place.shown = place.filter ? place.entries.filter((each) => each.name.toLowerCase().includes(place.filter)) : place.entries;
  place.chosen = Math.min(place.chosen, Math.max(0, place.shown.length - 1));
  list.setCount(place.shown.length);
  if (!place.shown.length) fill(list.space, h("div", { class: "empty" }, icon("folder"), place.filter ? "No name matches." : "Nothing is in here yet."));
}

const target = (entry) => link(entry.kind === "directory" ? "files" : "file", entry.path);

function row(place, list, at) {
  const entry = place.shown[at];
  const element = h("div", { class: `entry${entry.ignored ? " ignored" : ""}${place.fresh.has(entry.name) ? " fresh" : ""}`, data: { kind: entry.kind }, "aria-selected": at === place.chosen ? "true" : "false", onPointerDown: () => choose(place, list, at) },
    icon(ICONS[entry.kind] ?? "file"), h("a", { class: "cut", href: target(entry), title: plain(entry.name) }, plain(entry.name)),
    h("span", { class: "num" }, entry.kind === "directory" ? "" : size(entry.sizeBytes)),
    h("span", { class: "num" }, entry.modifiedMs ? ago(entry.modifiedMs) : ""),
    h("button", { class: "button quiet more", "aria-label": `More about ${plain(entry.name)}`, onClick: (event) => more(event.currentTarget, place, entry) }, icon("dots")));
  return element;
}

function choose(place, list, at) {
  list.rows.get(place.chosen)?.setAttribute("aria-selected", "false");
  place.chosen = at;
  list.rows.get(at)?.setAttribute("aria-selected", "true");
}

function more(anchor, place, entry) {
  popup(anchor, [
    { icon: "pen", label: "Rename or move", run: () => move(entry) },
    entry.kind === "file" && { icon: "down", label: "Download", run: () => download(entry.path) },
    has("history") && { icon: "clock", label: "History", run: () => go("history", entry.path) },
    { icon: "trash", label: "Remove", danger: true, run: () => remove(entry) },
  ].filter(Boolean));
}

export function download(path) {
  const anchor = h("a", { href: api.rawAddress(path), download: nameOf(path) });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
}

async function move(entry) {
  const to = await prompt("Rename or move", "New path, from the root", entry.path, "Move");
  if (!to || to === entry.path) return;
  await api.post("/move", { path: entry.path, to }).then(() => toast(`Moved to ${plain(to)}`), complain);
}

async function remove(entry) {
  const folder = entry.kind === "directory";
  const sure = await confirm("Remove?", `${plain(entry.path)}${folder ? " and everything in it" : ""} will be removed.${has("history") ? " Its history is kept." : " This cannot be undone here."}`, "Remove", "danger");
  if (sure) await api.post("/remove", { path: entry.path, recursive: folder }).then(() => toast(`Removed ${plain(entry.name)}`), complain);
}

async function newFile(place) {
  const name = await prompt("New file", "Name", "", "Create");
  if (!name) return;
  const path = join(place.path, name);
  await api.post("/file/write", { path, content: "", mode: "create", parents: true }).then(() => go("file", path, { edit: "yes" }), complain);
}

async function newDirectory(place) {
  const name = await prompt("New folder", "Name", "", "Create");
  if (name) await api.post("/dir", { path: join(place.path, name), parents: true }).catch(complain);
}

async function uploadAll(place, files, area) {
  for (const file of files) {
    if (file.size > UPLOAD_BYTES_MAX) { complain({ message: `${plain(file.name)} is larger than 50 MiB`, hint: "PUT /file/raw takes larger files" }); continue; }
    const bar = h("progress", { max: "1", value: 0 });
    const line = h("div", { class: "card padded" }, h("div", { class: "bar" }, h("span", { class: "grow cut" }, plain(file.name)), h("span", { class: "faint" }, size(file.size))), bar);
    area.append(line);
    try {
      const done = await api.upload(join(place.path, file.name), file, (part) => { bar.value = part; });
      toast(`Uploaded as ${plain(done.path)}`);
    } catch (error) { complain(error); }
    line.remove();
  }
}

function key(event, place, list) {
  const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: 15, PageUp: -15 }[event.key];
  if (step !== undefined) {
    choose(place, list, Math.max(0, Math.min(place.shown.length - 1, place.chosen + step)));
    list.show(place.chosen);
    return true;
  }
  const entry = place.shown[place.chosen];
  if (event.key === "Enter" && entry && event.target.tagName !== "BUTTON") { location.hash = target(entry); return true; }
  if (event.key === "Backspace" && place.path !== ".") { go("files", parentOf(place.path)); return true; }
  if (event.key === "n") { newFile(place); return true; }
  if (event.key === "Delete" && entry) { remove(entry); return true; }
  return false;
}
