// What was changed, also while nobody looked, and how much of it over time; a whole request can be
// taken back.

import { h, fill, icon } from "../dom.js";
import * as api from "../api.js";
import { SPANS, activity, begins } from "../activity.js";
import { Past } from "../past.js";
import { has } from "../state.js";
import { link } from "../router.js";
import { complain, dialog, toast } from "../dialogs.js";
import { ago, count, moment, plain } from "../words.js";
import { VirtualList } from "../virtual.js";

const TONES = { created: "good", deleted: "bad", moved: "warn", updated: "accent" };
const ROW = 40, COUNTED_MAX = 5000;

export function view() {
  const page = { span: "hour", shown: [], paused: false, picture: h("div", { class: "card padded" }), note: h("p", { class: "empty" }) };
  page.list = new VirtualList({ rowHeight: ROW, render: (at) => row(page.shown[at]), more: () => page.past.further() });
  page.filter = h("input", { class: "input", placeholder: "Filter by path or subject", "aria-label": "Filter", onInput: () => draw(page) });
  page.past = new Past(() => { if (!page.paused && !page.waiting) page.waiting = requestAnimationFrame(() => draw(page)); });
  const pause = h("button", { class: "button", "aria-pressed": "false", onClick: () => { page.paused = !page.paused; pause.setAttribute("aria-pressed", String(page.paused)); pause.textContent = page.paused ? "Paused" : "Pause"; if (!page.paused) draw(page); } }, "Pause");
  const spans = Object.entries(SPANS).map(([name, { label }]) => h("button", { class: "button", "aria-pressed": String(name === page.span), onClick: () => choose(page, name, spans) }, label));
  const clock = setInterval(() => { if (!page.paused) chart(page); }, 5000);
  draw(page);
  choose(page, page.span, spans);
  return {
    element: h("div", { class: "page" }, h("div", { class: "bar" }, h("h1", { class: "grow" }, "Changes"), spans, page.filter, pause), page.picture, h("div", { class: "card feed" }, page.list.element, page.note)),
    title: "Changes", close: () => { page.past.close(); page.list.close(); clearInterval(clock); cancelAnimationFrame(page.waiting); },
  };
}

async function choose(page, span, buttons) {
  page.span = span;
  buttons.forEach((each, at) => each.setAttribute("aria-pressed", String(Object.keys(SPANS)[at] === span)));
  await page.past.since(begins(span), COUNTED_MAX);
  chart(page);
}

function chart(page) {
  const { entries, complete, kept } = page.past;
  if (!entries.length && !complete) return;
  fill(page.picture, activity(entries, page.span, kept && (complete || (entries.at(-1)?.timeMs ?? Infinity) < begins(page.span))));
}

function draw(page) {
  page.waiting = 0;
  const wanted = page.filter.value.toLowerCase(), { past } = page;
  page.shown = wanted ? past.entries.filter((each) => each.path.toLowerCase().includes(wanted) || each.subject.toLowerCase().includes(wanted)) : past.entries;
  page.note.hidden = page.shown.length > 0;
  page.list.element.hidden = !page.shown.length;
  page.note.textContent = past.error ? plain(past.error.message) : !past.kept ? "This root keeps no history, and nothing has changed since you opened the console." : !past.complete ? "Looking…" : wanted ? "Nothing that was changed is called so." : "Nothing was changed here yet.";
  page.list.setCount(page.shown.length);
  chart(page);
}

function row(change) {
  if (change.kind === "rescan" || change.kind === "reset") {
    return h("div", null, h("span", { class: "faint" }, ago(change.timeMs)), h("span", null, h("span", { class: "chip" }, change.kind)), h("span", { class: "soft cut" }, "Changes before this moment may be missing from the list."), h("span"), h("span"));
  }
  const what = change.kind === "moved" && change.origin ? [plain(change.origin), " → ", plain(change.path)] : plain(change.path);
  return h("div", null, h("span", { class: "faint", title: moment(change.timeMs) }, ago(change.timeMs)), h("span", null, h("span", { class: `chip ${TONES[change.kind] ?? ""}` }, change.kind)),
    change.kind === "deleted" ? h("span", { class: "cut" }, what) : h("a", { class: "cut", href: link(change.type === "directory" ? "files" : "file", change.path) }, what),
    h("span", { class: "soft cut", title: plain(change.subject) }, plain(change.subject || "another program")),
    has("history") && change.requestId ? h("button", { class: "button quiet", title: "Take back everything this request changed", onClick: () => undo(change) }, icon("back"), h("span", { class: "only-wide" }, "Undo")) : h("span"));
}

async function undo(change) {
  try {
    const wanted = { requestId: change.requestId, subject: change.subject };
    const plan = await api.post("/undo", { ...wanted, preview: true });
    const sure = await dialog({
      title: "Take back this request?",
      body: [h("p", { class: "soft" }, `Everything that request ${plain(change.requestId)} of ${plain(change.subject)} changed, and nothing else.`),
        plan.undone.length ? h("div", { class: "card" }, h("table", { class: "rows" }, plan.undone.slice(0, 100).map((each) => h("tr", null, h("td", null, plain(each)))))) : h("p", null, "Nothing is left to take back."),
        plan.conflicts.length ? h("div", { class: "notice" }, h("b", null, "Changed since, so left alone:"), plan.conflicts.slice(0, 20).map((each) => h("span", { class: "chip warn" }, plain(each.path)))) : null],
      actions: [{ label: "Cancel", value: null }, ...(plan.undone.length ? [{ label: `Undo ${count(plan.undone.length, "path")}`, kind: "main", value: true }] : [])],
    });
    if (!sure) return;
    const done = await api.post("/undo", wanted);
    toast(`Took back ${count(done.undone.length, "path")}`, { detail: done.conflicts.length ? `${count(done.conflicts.length, "path")} changed since and left alone` : "" });
  } catch (error) { complain(error); }
}
