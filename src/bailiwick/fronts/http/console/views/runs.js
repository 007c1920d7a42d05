// What agents did, run by run: who, what came of it in all, what a person says of it, and back from
// it, as a whole, by file or by a few lines.

import { h, fill, icon } from "../dom.js";
import * as api from "../api.js";
import { state, on } from "../state.js";
import { go, link } from "../router.js";
import { complain, dialog, toast } from "../dialogs.js";
import { ago, count, moment, plain } from "../words.js";
import { fromUnified } from "../difference.js";
import { timeline } from "../timeline.js";

const TONES = { created: "good", deleted: "bad", moved: "warn", updated: "accent" };
const RUNS = 200, LOOKED = "bailiwick.looked", AGAIN_MS = 1500;

const looked = () => `${LOOKED}.${state.root.kind}:${state.root.id}`;

export function view({ path }) {
  const page = { timeline: false, chosen: path === "." ? null : path, runs: [], since: Number(localStorage.getItem(looked())) || 0, list: h("div", { class: "card choices" }), detail: h("div", { class: "card" }) };
  const element = h("div", { class: "page" }, h("div", { class: "bar" }, h("h1", { class: "grow" }, "Runs")), h("div", { class: "split" }, page.list, page.detail));
  const again = () => { page.timer ??= setTimeout(() => { page.timer = null; load(page); }, AGAIN_MS); };
  const following = [on("change", again), on("run", again), on("review", again)];
  page.seen = new IntersectionObserver((entries) => { for (const each of entries) if (each.isIntersecting) { page.seen.unobserve(each.target); each.target.unfold(); } }, { rootMargin: "400px" });
  load(page);
  return { element, title: "Runs", key: (event) => key(event, page), close: () => { for (const forget of following) forget(); clearTimeout(page.timer); page.seen.disconnect(); page.closed = true; localStorage.setItem(looked(), String(Date.now())); } };
}

async function load(page) {
  try {
    const { runs } = await api.get("/runs", { limit: RUNS });
    if (page.closed) return;
    page.runs = runs;
    page.chosen ??= runs[0]?.id ?? null;
    draw(page);
    await show(page);
  } catch (error) { fill(page.list); fill(page.detail, h("div", { class: "empty" }, icon("pulse"), h("b", null, plain(error.message)), plain(error.hint ?? ""))); }
}

const named = (run) => plain(run.title || run.subject);

function draw(page) {
  fill(page.list, page.runs.length ? page.runs.map((run) => h("button", { class: "choice", "aria-current": run.id === page.chosen ? "true" : "false", onClick: () => go("runs", run.id) },
    h("b", null, named(run), " ", run.active ? h("span", { class: "chip good" }, "at work") : null, run.seenMs > page.since ? h("span", { class: "chip accent" }, "new") : null),
    h("small", null, `${plain(run.subject)} · ${plain(run.front)}`), h("small", null, `${ago(run.seenMs)} · ${sum(run)}`), run.hunks ? h("small", null, run.reviewed >= run.hunks ? "reviewed" : `${run.reviewed} of ${run.hunks} reviewed`) : null))
    : h("div", { class: "empty" }, icon("pulse"), h("b", null, "No agent has done anything here yet."), "What one does appears here, also while you are away."),
    page.runs.length === RUNS ? h("div", { class: "choice" }, h("small", null, "Older runs are not listed.")) : null);
}

function sum(run) {
  if (run.added === null) return count(run.calls, "call");
  const files = [[run.created, "new"], [run.changed, "changed"], [run.moved, "moved"], [run.removed, "removed"]].filter(([number]) => number).map(([number, what]) => `${number} ${what}`);
  return `${files.join(", ") || "no file changed"} · +${run.added} −${run.removedLines}`;
}

// Drawn again only where something is another: whoever reads keeps their place.
async function show(page) {
  const run = page.runs.find((each) => each.id === page.chosen);
  if (!run) { fill(page.detail, h("div", { class: "empty" }, page.runs.length ? "There is no such run any more." : "")); return; }
  const told = await api.get(`/runs/${encodeURIComponent(run.id)}/changes`);
  const drawn = JSON.stringify([run.id, run.active, page.timeline && run.seenMs, told.changes]);
  if (page.closed || drawn === page.drawn) return;
  page.drawn = drawn;
  page.marked = -1;
  const standing = told.changes.flatMap((each) => each.hunks).filter((each) => each.state === "stands"), left = standing.filter((each) => !each.reviewed);
  fill(page.detail,
    h("div", { class: "question" },
      h("div", { class: "bar" }, h("h2", { class: "grow" }, named(run)), h("button", { class: "button quiet", "aria-pressed": String(page.timeline), onClick: () => { page.timeline = !page.timeline; page.drawn = null; show(page).catch(complain); } }, icon("clock"), "Timeline"), left.length ? h("button", { class: "button", title: "I have looked at all of it and agree", onClick: () => accept(page, left.map((each) => each.id)) }, icon("check"), `Accept all ${left.length}`) : null, standing.length ? h("button", { class: "button danger", onClick: () => undo(page, run, {}, "this run") }, icon("back"), "Take it all back") : null),
      h("div", { class: "meta" }, h("span", null, plain(run.subject)), h("span", null, plain(run.front)), h("span", null, `${moment(run.begunMs)} – ${run.active ? "now" : moment(run.seenMs)}`), h("span", null, count(run.calls, "call")), run.commands ? h("span", null, count(run.commands, "command")) : null, run.questions ? h("span", null, count(run.questions, "question")) : null, run.refusals ? h("span", { class: "chip bad" }, count(run.refusals, "refusal")) : null),
      run.steps.length ? h("ol", { class: "steps" }, run.steps.map((each) => h("li", { title: moment(each.begunMs) }, plain(each.name)))) : null),
    page.timeline ? timeline(run) : h("div", { class: "scroll grow hunks" }, told.changes.length ? told.changes.map((each) => file(page, run, each)) : h("div", { class: "empty" }, "Nothing is different because of it."),
      told.truncated ? h("div", { class: "empty" }, "It changed more than is shown here.") : null));
}

function file(page, run, change) {
  const body = h("div"), name = change.origin ? `${plain(change.origin)} → ${plain(change.path)}` : plain(change.path);
  const card = h("section", { class: "card" },
    h("header", null, h("span", { class: `chip ${TONES[change.kind] ?? ""}` }, change.kind), change.kind === "deleted" ? h("b", { class: "grow cut" }, name) : h("a", { class: "grow cut", href: link("file", change.path) }, name), change.type === "file" ? h("span", { class: "soft" }, `+${change.added} −${change.removed}`) : null,
      change.hunks.some((each) => each.state === "stands") ? h("button", { class: "button quiet", title: "Take back what the run did to this file", onClick: () => undo(page, run, { paths: [change.path] }, name) }, icon("back"), "File") : null), body);
  body.unfold = () => fill(body, change.hunks.map((each) => hunk(page, run, change, each)), change.others.map((each) => h("div", { class: "hunk others" }, h("div", { class: "bar" }, h("span", { class: "chip" }, `meanwhile, ${plain(each.subject || "another program")}`)), fromUnified([each.header, ...each.lines].join("\n"), false))));
  body.style.minHeight = "20px";
  page.seen.observe(body);
  return card;
}

function hunk(page, run, change, each) {
  const stands = each.state === "stands";
  return h("div", { class: "hunk", tabindex: "-1", data: { hunk: each.id, state: each.state } },
    h("div", { class: "bar" }, h("span", { class: "grow faint mono" }, plain(each.header)),
      each.reviewed ? h("span", { class: `chip ${each.reviewed === "accepted" ? "good" : "bad"}` }, plain(each.reviewed)) : null,
      stands ? [each.reviewed ? null : h("button", { class: "button quiet", title: "I have looked at it and agree (y)", data: { key: "y" }, onClick: () => accept(page, [each.id]) }, icon("check"), "Accept"),
        h("button", { class: "button quiet", title: "Take it back and say why (r)", data: { key: "r" }, onClick: () => reject(page, run, [each.id], "these lines") }, icon("cross"), "Reject"),
        h("button", { class: "button quiet", title: "Take it back without a word (u)", data: { key: "u" }, onClick: () => undo(page, run, { paths: [change.path], hunks: [each.id] }, "these lines") }, icon("back"), "Take back")] : each.reviewed ? null : h("span", { class: "chip" }, each.state === "undone" ? "taken back" : "changed by others since")),
    each.reviewed === "accepted" ? null : each.lines.length ? fromUnified([each.header, ...each.lines].join("\n"), false) : change.type === "file" ? h("p", { class: "soft" }, "There is no text to compare.") : null);
}

// Agreeing changes no file: it is only kept that somebody has looked, and folded away.
async function accept(page, ids) {
  try {
    const done = await api.post("/review", { accept: ids });
    toast(done.left ? `Accepted; ${count(done.left, "piece")} left to look at` : "Accepted; nothing is left to look at");
    await load(page);
  } catch (error) { complain(error); }
}

async function reject(page, run, ids, what) {
  const note = h("textarea", { class: "input", rows: "3", maxlength: "2000", placeholder: "What should it do instead?", "aria-label": "Note to the agent" }), insist = h("input", { type: "checkbox", id: "insist" });
  const sure = await dialog({
    title: `Reject ${what}?`,
    body: [h("p", { class: "soft" }, "They are taken back, and the agent reads your note with its next result."), note, run.active ? h("label", { for: "insist" }, insist, " also while it is in the middle of something") : null],
    actions: [{ label: "Cancel", value: null }, { label: "Reject", kind: "danger", value: true }],
  });
  if (!sure) return;
  try {
    const done = await api.post("/review", { reject: ids, note: note.value.trim() || null, insist: insist.checked });
    if (done.conflicts.length) toast(`Nothing was changed: others changed the same lines of ${plain(done.conflicts[0].path)}`);
    else toast("Rejected; the agent is told");
    await load(page);
  } catch (error) { complain(error); }
}

async function undo(page, run, part, what) {
  const route = `/runs/${encodeURIComponent(run.id)}/undo`;
  try {
    const plan = await api.post(route, { ...part, preview: true });
    const possible = plan.undone.length && !plan.conflicts.length;
    const sure = await dialog({
      title: `Take back ${what}?`,
      body: [h("p", { class: "soft" }, "Line by line by what stands there now. Nobody else's lines are touched, and it can be undone."),
        plan.conflicts.length ? h("div", { class: "notice" }, h("b", null, "Others changed the same lines, so nothing is done:"), plan.conflicts.slice(0, 20).map((each) => h("span", { class: "chip warn", title: plain(each.reason) }, plain(each.path))))
          : plan.undone.length ? h("div", { class: "card" }, h("table", { class: "rows" }, plan.undone.slice(0, 100).map((each) => h("tr", null, h("td", null, plain(each)))))) : h("p", null, "Nothing is left to take back.")],
      actions: [{ label: "Cancel", value: null }, ...(possible ? [{ label: `Take back ${count(plan.undone.length, "path")}`, kind: "main", value: true }] : [])],
    });
    if (!sure) return;
    const done = await api.post(route, part);
    toast(`Took back ${count(done.undone.length, "path")}`);
    await load(page);
  } catch (error) { complain(error); }
}

// Through the hunks by keyboard: n and p from one to the next; y agrees with the marked one, r rejects
// it, u takes it back.
function key(event, page) {
  const step = { n: 1, p: -1 }[event.key];
  const hunks = [...page.detail.querySelectorAll(".hunk[data-hunk]")];
  if (step && hunks.length) {
    page.marked = Math.max(0, Math.min(hunks.length - 1, page.marked + step));
    hunks.forEach((each, at) => each.classList.toggle("marked", at === page.marked));
    hunks[page.marked].scrollIntoView({ block: "nearest" });
    return true;
  }
  if ("yru".includes(event.key) && hunks[page.marked]) { hunks[page.marked].querySelector(`[data-key=${event.key}]`)?.click(); return true; }
  return false;
}
