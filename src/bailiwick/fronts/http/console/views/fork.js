// One fork beside this branch: what differs, piece by piece; what is taken over, and what both sides
// changed, settled where it is seen.

import { h, fill, icon } from "../dom.js";
import * as api from "../api.js";
import { go, link } from "../router.js";
import { complain, confirm, toast } from "../dialogs.js";
import { count, plain } from "../words.js";
import { pieces } from "../difference.js";
import { TONES } from "../changed_files.js";
import { Windows } from "../windows.js";

const CARD = 160;

export function view({ path: name }) {
  const page = { name, chosen: new Set(), bar: h("div", { class: "bar" }), list: h("div", { class: "scroll grow hunks" }) };
  page.windows = new Windows(page.list);
  fill(page.bar, title(page));
  load(page);
  return { element: h("div", { class: "page" }, page.bar, h("div", { class: "card fill" }, page.list)), title: `Fork ${name}`, close: () => page.windows.close() };
}

async function load(page) {
  const { name } = page, at = page.list.scrollTop;
  try {
    const [found, plan] = await Promise.all([api.get("/compare", { name }), api.post("/merge", { name, preview: true })]);
    page.conflicts = new Map(plan.conflicts.map((each) => [each.path, each.reason]));
    const comes = new Set(plan.changed), other = found.differences.filter(isOther);
    page.mergeable = plan.changed.length > 0;
    page.shown = page.conflicts.size ? conflicting(other, page.conflicts) : other.filter((each) => comes.has(each.path) || comes.has(each.origin));
    page.files = page.shown.filter((each) => each.type === "file" && each.kind !== "moved" && !page.conflicts.has(each.path));
    page.rest = other.length - page.shown.length;
    page.truncated = found.truncated;
    for (const path of page.chosen) if (!page.files.some((each) => each.path === path)) page.chosen.delete(path);
    draw(page);
    page.list.scrollTop = at;
  } catch (error) { fill(page.list, h("div", { class: "empty" }, icon("fork"), h("b", null, plain(error.message)), plain(error.hint ?? ""))); }
}

// The same bytes, written at another time, are nothing to look at.
const isOther = (each) => each.kind !== "updated" || each.type !== "file" || !each.hash || each.hash !== each.hashBefore;

function conflicting(differences, conflicts) {
  const known = new Map(differences.map((each) => [each.path, each]));
  return [...conflicts.keys()].map((path) => known.get(path) ?? { path, kind: "updated", type: "file" });
}

const title = (page) => [h("h1", { class: "grow" }, `Fork ${plain(page.name)}`), h("a", { class: "button", href: link("versions") }, icon("back"), "All forks")];

function draw(page) {
  const { conflicts, shown, chosen } = page;
  fill(page.bar, title(page),
    chosen.size ? h("button", { class: "button", onClick: () => take(page) }, icon("check"), `Take over ${count(chosen.size, "file")}`) : null,
    page.mergeable && !conflicts.size ? h("button", { class: "button main", onClick: () => merge(page) }, icon("fork"), "Merge everything") : null);
  page.windows.close();
  page.windows = new Windows(page.list);
  fill(page.list,
    conflicts.size ? h("div", { class: "notice" }, h("b", null, `${count(conflicts.size, "path")} changed on both sides.`), "Settle each here; then the rest can be merged.") : null,
    shown.length ? shown.map((each) => card(page, each)) : h("div", { class: "empty" }, icon("fork"), h("b", null, "There is nothing to take over."), page.rest ? "What differs was changed here, and stays as it is." : "Both are the same."),
    page.rest && shown.length ? h("p", { class: "soft" }, conflicts.size ? `${count(page.rest, "other path")} differ and are shown once these are settled.` : `${count(page.rest, "other path")} were changed here only and stay as they are.`) : null,
    page.truncated ? h("p", { class: "soft" }, "There is more than is listed here.") : null);
}

function card(page, each) {
  const reason = page.conflicts.get(each.path), body = page.windows.add(h("div"), each.type === "file" ? CARD : 0, () => differences(page, each, reason));
  const box = page.files.includes(each) ? h("input", { type: "checkbox", "aria-label": `Choose ${plain(each.path)}`, checked: page.chosen.has(each.path), onChange: () => { if (!page.chosen.delete(each.path)) page.chosen.add(each.path); draw(page); } }) : null;
  return h("section", { class: "card", data: { path: each.path } },
    h("header", null, box, h("span", { class: `chip ${reason ? "bad" : TONES[each.kind] ?? ""}` }, reason ? "conflict" : each.kind), h("b", { class: "grow cut" }, each.origin ? `${plain(each.origin)} → ` : "", plain(each.path))), body);
}

// A text on one side; null where there is none.
async function textOf(path, fork) {
  let told;
  try { told = await api.get("/file", { path, fork }); }
  catch (error) { if (error.kind === "path_not_found") return null; throw error; }
  // What was not read to its end must never be written back.
  if (told.nextCursor || told.truncated) throw new api.Refusal({ error: "This text is too long to be compared here.", errorKind: "file_too_large" }, 413);
  return told;
}

const sides = (page, path) => Promise.all([textOf(path), textOf(path, page.name)]);

async function differences(page, each, reason) {
  if (each.type !== "file") return null;
  try {
    const [ours, theirs] = await sides(page, each.path), before = ours?.content ?? "", after = theirs?.content ?? "";
    const found = ours && theirs ? pieces(before, after, page.windows) : null;
    return [reason ? settling(page, each, ours, theirs) : null,
      found ? found.map((piece) => h("div", { class: "hunk" }, h("div", { class: "bar" }, h("span", { class: "grow faint mono" }, piece.header), h("button", { class: "button quiet", title: "Have these lines here, too", onClick: () => put(page, each.path, piece.taken, ours) }, icon("check"), "Take over")), piece.element))
        : pieces(before, after, page.windows).map((piece) => h("div", { class: "hunk" }, piece.element))];
  } catch (error) { return h("p", { class: "soft padded" }, error.kind === "binary_file" ? "There is no text to compare." : plain(error.message)); }
}

function settling(page, each, ours, theirs) {
  const edit = () => {
    const area = h("textarea", { class: "input mono", rows: "14", spellcheck: "false", "aria-label": `Text of ${plain(each.path)}`, value: (ours ?? theirs).content });
    fill(place, area, h("div", { class: "bar" }, h("button", { class: "button main", onClick: () => settle(page, each.path, area.value, ours, theirs) }, "Use this text"), h("button", { class: "button", onClick: () => fill(place) }, "Cancel")));
    area.focus();
  };
  const place = h("div", { class: "edited" });
  return [h("p", { class: "soft reason" }, `${plain(page.conflicts.get(each.path))}. Red: here. Green: in the fork.`), h("div", { class: "verdict" },
    h("button", { class: "button", onClick: () => settle(page, each.path, ours?.content ?? null, ours, theirs) }, ours ? "Ours" : "Ours: remove it"),
    h("button", { class: "button", onClick: () => settle(page, each.path, theirs?.content ?? null, ours, theirs) }, theirs ? "Theirs" : "Theirs: remove it"),
    h("button", { class: "button", onClick: edit }, icon("pen"), "Edit")), place];
}

// --- what is done ------------------------------------------------------------------------------

// What was read is what is replaced: nobody's later words are written over.
const written = (path, content, now, like) => ({ op: "write", path, content, parents: true, lineEnding: null, encoding: (now ?? like)?.encoding, ...(now ? { expectedHash: now.hash } : { mode: "create" }) });
const removed = (path, now) => ({ op: "remove", path, expectedHash: now.hash });

async function batch(operations, fork) { if (operations.length) await api.post("/batch", { operations }, { query: { fork } }); }

async function done(page, work, words) {
  try { await work(); toast(words); } catch (error) { complain(error); }
  await load(page);
}

function put(page, path, content, ours) { return done(page, () => batch([written(path, content, ours, ours)]), "Taken over"); }

function take(page) {
  return done(page, async () => {
    const operations = [];
    for (const path of page.chosen) {
      const [ours, theirs] = await sides(page, path);
      if (theirs) operations.push(written(path, theirs.content, ours, theirs));
      else if (ours) operations.push(removed(path, ours));
    }
    await batch(operations);
    page.chosen.clear();
  }, "Taken over");
}

// Both sides come to hold the same. Where one of them had removed it, it is made anew on both: a
// merge knows a file by more than its name.
function settle(page, path, content, ours, theirs) {
  const anew = !ours || !theirs;
  const steps = (now) => {
    if (content === null) return now ? [removed(path, now)] : [];
    if (anew) return [...(now ? [removed(path, now)] : []), written(path, content, null, now ?? ours ?? theirs)];
    return now.content === content ? [] : [written(path, content, now)];
  };
  return done(page, async () => { await batch(steps(theirs), page.name); await batch(steps(ours)); }, "Settled");
}

async function merge(page) {
  if (!(await confirm(`Merge ${plain(page.name)}?`, `${count(page.shown.length, "path")} will be as in the fork. It can be undone.`, "Merge"))) return;
  await done(page, async () => {
    const told = await api.post("/merge", { name: page.name });
    if (told.conflicts.length) throw new api.Refusal({ error: "Nothing was merged: there are conflicts now", errorKind: "conflict" }, 409);
    go("versions");
  }, "Merged");
}
