// Snapshots to come back to, and forks to try things in: compare, merge, let go.

import { h, fill, icon } from "../dom.js";
import * as api from "../api.js";
import { state, has, useRoot } from "../state.js";
import { go, link } from "../router.js";
import { complain, confirm, prompt, toast } from "../dialogs.js";
import { ago, count, plain } from "../words.js";

export function view() {
  const page = { snapshots: h("div", { class: "card" }), forks: h("div", { class: "card" }) };
  const branches = has("forks");
  const element = h("div", { class: "page scrolls" },
    h("div", { class: "bar" }, h("h1", { class: "grow" }, "Versions"),
      branches ? h("button", { class: "button", onClick: () => snapshot(page) }, icon("clock"), "Snapshot") : null,
      branches ? h("button", { class: "button main", onClick: () => fork(page) }, icon("fork"), "Fork") : null),
    state.fork ? h("div", { class: "notice" }, h("b", { class: "grow" }, `You are in the fork ${plain(state.fork)}.`), h("button", { class: "button", onClick: () => enter(null) }, "Back to the main branch")) : null,
    branches ? [h("h2", null, "Forks"), page.forks, h("h2", null, "Snapshots"), page.snapshots] : h("div", { class: "card empty" }, icon("fork"), h("b", null, "This root has no forks or snapshots."), "Volumes have them: bailiwick serve, without a directory."));
  if (branches) load(page);
  return { element, title: "Versions" };
}

async function load(page) {
  try {
    const [{ forks }, { snapshots }] = await Promise.all([api.get("/forks"), api.get("/snapshots")]);
    const others = forks.filter((each) => each.parent);
    fill(page.forks, others.length ? h("table", { class: "rows" }, others.map((each) => h("tr", null, h("td", null, h("b", null, plain(each.name)), h("div", { class: "soft" }, `from ${plain(each.parent || "main")}, ${ago(each.createdMs)}`)),
      h("td", null, h("div", { class: "bar" }, h("button", { class: "button", onClick: () => enter(each.name) }, "Open"), h("a", { class: "button", href: link("fork", each.name) }, "Compare and merge"), h("button", { class: "button danger", onClick: () => removeFork(page, each.name) }, "Delete")))))) : h("div", { class: "empty" }, icon("fork"), "No forks. A fork is a copy of everything that costs nothing until it differs."));
    fill(page.snapshots, snapshots.length ? h("table", { class: "rows" }, snapshots.map((each) => h("tr", null, h("td", null, h("b", null, plain(each.name)), h("div", { class: "soft" }, `${plain(each.branch || "main")}, ${ago(each.createdMs)}`)),
      h("td", null, h("div", { class: "bar" }, h("button", { class: "button", onClick: () => restore(each.name) }, "Restore everything"), h("button", { class: "button danger", onClick: () => removeSnapshot(page, each.name) }, "Delete")))))) : h("div", { class: "empty" }, icon("clock"), "No snapshots yet."));
  } catch (error) { complain(error); }
}

function enter(name) { useRoot(state.root, name).then(() => go("files"), complain); }

async function snapshot(page) {
  const name = await prompt("Snapshot", "Name", "", "Keep");
  if (name) await api.post("/snapshot", { name }).then(() => toast("Kept"), complain);
  await load(page);
}

async function fork(page) {
  const name = await prompt("Fork", "Name", "", "Fork");
  if (name) await api.post("/fork", { name }).then(() => toast(`Forked as ${plain(name)}`), complain);
  await load(page);
}

async function removeFork(page, name) {
  if (await confirm("Delete this fork?", `What was only in ${plain(name)} is lost.`, "Delete", "danger")) await api.drop(`/forks/${encodeURIComponent(name)}`).then(() => toast("Deleted"), complain);
  await load(page);
}

async function removeSnapshot(page, name) {
  if (await confirm("Delete this snapshot?", "Versions that only it keeps may go.", "Delete", "danger")) await api.drop(`/snapshots/${encodeURIComponent(name)}`).then(() => toast("Deleted"), complain);
  await load(page);
}

async function restore(name) {
  if (await confirm("Restore everything?", `Every file becomes what it was in the snapshot ${plain(name)}. What is there now stays in the history.`, "Restore")) await api.post("/restore", { path: ".", version: name }).then((done) => toast(`Restored ${count(done.changed, "object")}`), complain);
}
