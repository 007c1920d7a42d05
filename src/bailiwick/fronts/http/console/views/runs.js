// What agents did, run by run: who, what came of it in all, and back from it, as a whole, by file
// or by a few lines.

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
    h("small", null, `${plain(run.subject)} · ${plain(run.front)}`), h("small", null, `${ago(run.seenMs)} · ${sum(run)}`)))
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
  const whole = told.changes.some((each) => each.hunks.some((hunk) => hunk.state === "stands"));
  fill(page.detail,
    h("div", { class: "question" },
      h("div", { class: "bar" }, h("h2", { class: "grow" }, named(run)), h("button", { class: "button quiet", "aria-pressed": String(page.timeline), onClick: () => { page.timeline = !page.timeline; page.drawn = null; show(page).catch(complain); } }, icon("clock"), "Timeline"), whole ? h("button", { class: "button danger", onClick: () => undo(page, run, {}, "this run") }, icon("back"), "Take it all back") : null),
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
      stands ? h("button", { class: "button quiet", onClick: () => undo(page, run, { paths: [change.path], hunks: [each.id] }, "these lines") }, icon("back"), "Take back") : h("span", { class: "chip" }, each.state === "undone" ? "taken back" : "changed by others since")),
    each.lines.length ? fromUnified([each.header, ...each.lines].join("\n"), false) : change.type === "file" ? h("p", { class: "soft" }, "There is no text to compare.") : null);
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

// Through the hunks by keyboard: n and p from one to the next, u takes the marked one back.
function key(event, page) {
  const step = { n: 1, p: -1 }[event.key];
  const hunks = [...page.detail.querySelectorAll(".hunk[data-hunk]")];
  if (step && hunks.length) {
    page.marked = Math.max(0, Math.min(hunks.length - 1, page.marked + step));
    hunks.forEach((each, at) => each.classList.toggle("marked", at === page.marked));
    hunks[page.marked].scrollIntoView({ block: "nearest" });
    return true;
  }
  if (event.key === "u" && hunks[page.marked]) { hunks[page.marked].querySelector("button")?.click(); return true; }
  return false;
}
