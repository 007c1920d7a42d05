// What agents did, run by run: who, what came of it in all, what a person says of it, and back from
// it, as a whole, by file or by a few lines. What they did apart, in a working copy, is judged here
// too: accepted it comes into the tree, rejected it is given up.

import { h, fill, icon, released } from "../dom.js";
import * as api from "../api.js";
import { state, on } from "../state.js";
import { go, here } from "../router.js";
import { complain, dialog, toast } from "../dialogs.js";
import { ago, count, moment, plain } from "../words.js";
import { ChangedFiles, asShown, ofRun, ofWork } from "../changed_files.js";
import { timeline } from "../timeline.js";
import { accept, reject } from "../verdicts.js";

const RUNS = 200, LOOKED = "bailiwick.looked", AGAIN_MS = 1500;

const looked = () => `${LOOKED}.${state.root.kind}:${state.root.id}`;

export function view({ path }) {
  const page = { timeline: false, chosen: path === "." ? null : path, runs: [], more: false, work: [], since: Number(localStorage.getItem(looked())) || 0, list: h("div", { class: "card choices" }), head: h("div"), detail: h("div", { class: "card" }) };
  const element = h("div", { class: "page" }, h("div", { class: "bar" }, h("h1", { class: "grow" }, "Runs")), h("div", { class: "split" }, page.list, page.detail));
  const again = () => { page.timer ??= setTimeout(() => { page.timer = null; load(page); }, AGAIN_MS); };
  const following = [on("change", again), on("run", again), on("review", again)];
  const leave = () => localStorage.setItem(looked(), String(Date.now()));
  addEventListener("pagehide", leave);
  load(page);
  return { element, title: "Runs", key: (event) => page.files?.key(event) ?? false, close: () => { for (const forget of following) forget(); clearTimeout(page.timer); closeFiles(page); page.closed = true; removeEventListener("pagehide", leave); if (here().view !== "runs") { leave(); wanted = RUNS; } } }; // from one run to the next one is still looking
}

// So many as somebody asked for since they came to this page, whichever run they look at.
let wanted = RUNS;

async function listed(page, brief) {
  const runs = [];
  let cursor = null;
  do {
    const answer = await api.get("/runs", { limit: RUNS, brief, cursor });
    runs.push(...answer.runs);
    cursor = answer.nextCursor;
  } while (cursor && runs.length < wanted);
  page.more = Boolean(cursor);
  return runs;
}

// A run that a link names may be older than all that are listed, or be named by a beginning of its id.
async function find(page) {
  const isListed = [...page.runs.map((each) => each.id), ...page.work.map(workKey)].includes(page.chosen);
  page.unlisted = null;
  if (!page.chosen || isListed || page.chosen.includes(":")) return;
  try { page.unlisted = await api.get(`/runs/${encodeURIComponent(page.chosen)}`); }
  catch (error) { if (error.kind !== "path_not_found" && error.kind !== "parse_error") throw error; return; }
  page.chosen = page.unlisted.id;
  if (page.runs.some((each) => each.id === page.chosen)) page.unlisted = null;
}

async function older(page, button) {
  button.disabled = true;
  wanted = page.runs.length + RUNS;
  page.counted = false;
  await load(page);
}

async function load(page) {
  // What came of each run takes a look at all that it changed: whoever comes sees first which there
  // are, then the one that is shown, and the others last.
  const first = !page.counted;
  page.counted = true;
  try {
    // Some roots have no past, some nothing apart: either is enough to show.
    const [runs, work] = await Promise.allSettled([listed(page, first), api.get("/work")]);
    if (page.closed) return;
    page.work = work.value?.work ?? [];
    if (runs.reason && !page.work.length) throw runs.reason;
    page.runs = runs.value ?? [];
    await find(page);
    page.chosen ??= page.work.length ? workKey(page.work[0]) : page.runs[0]?.id ?? null;
    draw(page);
    if (first) page.list.querySelector("[aria-current=true]")?.scrollIntoView({ block: "nearest" });
    const shown = page.runs.findIndex((each) => each.id === page.chosen);
    if (first && shown >= 0) page.runs[shown] = await api.get(`/runs/${encodeURIComponent(page.chosen)}`);
    await show(page);
    if (!first || !page.runs.length) return;
    page.runs = await listed(page, false);
    draw(page);
  } catch (error) { fill(page.detail, page.drawn ? page.head : null, h("div", { class: "empty" }, icon("pulse"), h("b", null, plain(error.message)), plain(error.hint ?? ""))); }
}

const named = (run) => plain(run.title || run.subject);
const workKey = (work) => `work:${work.id}`;
const workName = (work) => (work.command[0] === "overlay:" ? "Overlay" : plain(work.command.join(" ") || work.subject));

function draw(page) {
  fill(page.list,
    page.work.map((work) => h("button", { class: "choice", "aria-current": String(workKey(work) === page.chosen), onClick: () => go("runs", workKey(work)) },
      h("b", { class: "cut" }, workName(work)), h("small", null, h("span", { class: "chip warn" }, "not applied"), ` ${plain(work.subject)} · ${ago(work.beganMs)}`))),
    page.runs.length ? page.runs.map((run) => h("button", { class: "choice", "aria-current": run.id === page.chosen ? "true" : "false", onClick: () => go("runs", run.id) },
    h("b", null, named(run), " ", run.active ? h("span", { class: "chip good" }, "at work") : null, " ", run.seenMs > page.since ? h("span", { class: "chip accent" }, "new") : null),
    h("small", null, `${plain(run.subject)} · ${plain(run.front)}`), h("small", null, `${ago(run.seenMs)} · ${sum(run)}`), run.hunks ? h("small", null, run.reviewed >= run.hunks ? "reviewed" : `${run.reviewed} of ${run.hunks} reviewed`) : null))
    : page.work.length ? null : h("div", { class: "empty" }, icon("pulse"), h("b", null, "No agent has done anything here yet."), "What one does appears here, also while you are away."),
    page.more ? h("button", { class: "choice", onClick: (event) => older(page, event.currentTarget) }, "Older runs") : null);
}

function sum(run) {
  if (run.added === null) return count(run.calls, "call");
  const files = [[run.created, "new"], [run.changed, "changed"], [run.moved, "moved"], [run.removed, "removed"]].filter(([number]) => number).map(([number, what]) => `${number} ${what}`);
  return `${files.join(", ") || "no file changed"} · +${run.added} −${run.removedLines}`;
}

// Only the head is drawn again: whoever reads keeps their place.
async function show(page) {
  const work = page.work.find((each) => workKey(each) === page.chosen);
  if (work) { await showWork(page, work); return; }
  const run = page.runs.find((each) => each.id === page.chosen) ?? page.unlisted;
  if (!run) { closeFiles(page); fill(page.detail, h("div", { class: "empty" }, page.chosen ? `There is nothing called ${plain(page.chosen)} here, or not any more.` : "")); return; }
  fill(page.head, head(page, run));
  const drawn = JSON.stringify([run.id, page.timeline, page.timeline && run.seenMs, counts(run)]);
  if (drawn === page.drawn) { page.files?.again(); return; }
  page.drawn = drawn;
  if (page.timeline) { closeFiles(page); fill(page.detail, page.head, timeline(run)); return; }
  await showFiles(page, new ChangedFiles(ofRun(run), { accept: (ids) => accept({ accept: ids }, () => load(page)), reject: (ids, what) => reject(ids, what, { active: run.active }, () => load(page)), undo: (part, what) => undo(page, run, part, what) }));
}

// What is left of a working copy is another list after each verdict: all of it is asked for again.
async function showWork(page, work) {
  const of = { work: work.id }, again = () => load(page);
  if (page.shown === page.chosen && page.files?.settles) return;
  page.drawn = null;
  const files = new ChangedFiles(ofWork(work), { accept: (ids, how) => accept({ accept: ids, ...how, ...of }, again), reject: (ids, what) => reject(ids, what, { of }, again) });
  fill(page.head, h("div", { class: "question" },
    h("div", { class: "bar" }, h("h2", { class: "grow" }, workName(work)),
      h("button", { class: "button", title: "Have all of it in the tree", onClick: () => accept({ accept: [asShown(work.id, files.version)], ...of }, again) }, icon("check"), "Apply all"),
      h("button", { class: "button danger", onClick: () => reject([asShown(work.id, files.version)], "all of it", { of }, again) }, icon("cross"), "Give it all up")),
    h("div", { class: "meta" }, h("span", null, plain(work.subject)), h("span", null, `since ${moment(work.beganMs)}`), h("span", null, "nothing of it is in the tree yet"))));
  await showFiles(page, files);
}

function closeFiles(page) { page.files?.close(); page.files = page.coming = null; }

// A list takes the place of another when it is there and is another, and not under somebody who
// types or presses.
async function showFiles(page, files) {
  page.coming = files;
  await files.begin();
  await released();
  const isSame = page.shown === page.chosen;
  if (page.coming !== files || (isSame && page.files?.settles)) { files.close(); return; }
  if (isSame && page.files?.lists(files)) { files.close(); page.files.again(); return; }
  const place = isSame ? page.files?.place() : null;
  if (place) files.marked = page.files.marked;
  closeFiles(page);
  page.files = files;
  page.shown = page.chosen;
  fill(page.detail, page.head, files.element);
  files.goTo(place);
}

// What is listed of a run is another list when one of these is another.
const counts = (run) => [run.created, run.changed, run.moved, run.removed, run.added, run.removedLines, run.hunks];

function head(page, run) {
  const left = (run.hunks ?? 0) - (run.reviewed ?? 0);
  return h("div", { class: "question" },
    h("div", { class: "bar" }, h("h2", { class: "grow" }, named(run)), h("button", { class: "button quiet", "aria-pressed": String(page.timeline), onClick: () => { page.timeline = !page.timeline; show(page).catch(complain); } }, icon("clock"), "Timeline"), left > 0 ? h("button", { class: "button", title: "I have looked at all of it and agree", onClick: () => accept({ accept: [asShown(run.id, run.version)] }, () => load(page)) }, icon("check"), "Accept all") : null, run.hunks ? h("button", { class: "button danger", onClick: () => undo(page, run, {}, "this run") }, icon("back"), "Take it all back") : null),
    h("div", { class: "meta" }, h("span", null, plain(run.subject)), h("span", null, plain(run.front)), h("span", null, `${moment(run.begunMs)} – ${run.active ? "now" : moment(run.seenMs)}`), h("span", null, count(run.calls, "call")), run.commands ? h("span", null, count(run.commands, "command")) : null, run.questions ? h("span", null, count(run.questions, "question")) : null, run.refusals ? h("span", { class: "chip bad" }, count(run.refusals, "refusal")) : null),
    run.steps.length ? h("ol", { class: "steps" }, run.steps.map((each) => h("li", { title: moment(each.begunMs) }, plain(each.name)))) : null);
}

async function undo(page, run, part, what) {
  const route = `/runs/${encodeURIComponent(run.id)}/undo`;
  try {
    const plan = await api.post(route, { ...part, preview: true });
    const possible = plan.undone.length && !plan.conflicts.length;
    const sure = await dialog({
      title: `Take back ${what}?`,
      body: [h("p", { class: "soft" }, "Line by line by what stands there now. Nobody else's lines are touched, and it can be undone."),
        plan.conflicts.length ? h("div", { class: "notice" }, h("b", null, "Something stands against it, so nothing is done:"), plan.conflicts.slice(0, 20).map((each) => h("p", null, h("span", { class: "chip warn" }, plain(each.path)), ` ${plain(each.reason)}`)))
          : plan.undone.length ? h("div", { class: "card" }, h("table", { class: "rows" }, plan.undone.slice(0, 100).map((each) => h("tr", null, h("td", null, plain(each)))))) : h("p", null, "Nothing is left to take back.")],
      actions: [{ label: "Cancel", value: null }, ...(possible ? [{ label: `Take back ${count(plan.undone.length, "path")}`, kind: "main", value: true }] : [])],
    });
    if (!sure) return;
    const done = await api.post(route, part);
    toast(`Took back ${count(done.undone.length, "path")}`);
    await load(page);
  } catch (error) { complain(error); }
}
