// What happens just now, and how much of it over time; a whole request can be taken back.

import { h, fill, icon, svg } from "../dom.js";
import * as api from "../api.js";
import { changes, has, on } from "../state.js";
import { link } from "../router.js";
import { complain, dialog, toast } from "../dialogs.js";
import { count, moment, plain } from "../words.js";

const TONES = { created: "good", deleted: "bad", moved: "warn", updated: "accent" };
const SHOWN = 400, BARS = 60;

export function view() {
  const rows = h("div", { class: "card feed" }), picture = h("div", { class: "card padded" });
  const filter = h("input", { class: "input", placeholder: "Filter by path or subject", "aria-label": "Filter", onInput: () => draw() });
  const pause = h("button", { class: "button", "aria-pressed": "false", onClick: () => { paused = !paused; pause.setAttribute("aria-pressed", String(paused)); pause.lastChild.textContent = paused ? "Paused" : "Pause"; if (!paused) draw(); } }, "Pause");
  let paused = false, waiting = 0;
  const draw = () => {
    waiting = 0;
    const wanted = filter.value.toLowerCase();
    const shown = changes.filter((each) => !wanted || each.path.toLowerCase().includes(wanted) || each.subject.toLowerCase().includes(wanted)).slice(0, SHOWN);
    fill(rows, shown.length ? shown.map(row) : h("p", { class: "empty" }, "Nothing has changed since you opened the console."));
    fill(picture, activity(changes));
  };
  const forget = on("change", () => { if (!paused && !waiting) waiting = requestAnimationFrame(draw); });
  const clock = setInterval(() => { if (!paused) fill(picture, activity(changes)); }, 5000);
  draw();
  return { element: h("div", { class: "page scrolls" }, h("div", { class: "bar" }, h("h1", { class: "grow" }, "Changes"), filter, pause), picture, rows), title: "Changes", close: () => { forget(); clearInterval(clock); } };
}

function row(change) {
  if (change.kind === "rescan" || change.kind === "reset") {
    return h("div", null, h("span", { class: "faint" }, moment(change.timeMs).slice(11)), h("span", null, h("span", { class: "chip" }, change.kind)), h("span", { class: "soft" }, "Changes before this moment may be missing from the list."), h("span"), h("span"));
  }
  const what = change.kind === "moved" ? [plain(change.origin), " → ", plain(change.path)] : plain(change.path);
  return h("div", null, h("span", { class: "faint" }, moment(change.timeMs).slice(11)), h("span", null, h("span", { class: `chip ${TONES[change.kind] ?? ""}` }, change.kind)),
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

// Bars for the last hour, a minute each, stacked by kind.
function activity(all) {
  const now = Date.now(), kinds = ["created", "updated", "moved", "deleted"], bins = Array.from({ length: BARS }, () => ({}));
  for (const change of all) {
    const age = Math.floor((now - change.timeMs) / 60000);
    if (age >= 0 && age < BARS && kinds.includes(change.kind)) bins[BARS - 1 - age][change.kind] = (bins[BARS - 1 - age][change.kind] ?? 0) + 1;
  }
  const most = Math.max(1, ...bins.map((bin) => kinds.reduce((sum, kind) => sum + (bin[kind] ?? 0), 0)));
  const bars = bins.map((bin, at) => {
    let top = 100;
    return kinds.filter((kind) => bin[kind]).map((kind) => { const height = (bin[kind] / most) * 90; top -= height; return svg("rect", { class: kind, x: at * 10 + 1, y: top, width: 8, height, rx: 1 }); });
  });
  const tones = { created: "good", updated: "accent", moved: "warn", deleted: "bad" };
  return [h("div", { class: "bar" }, h("b", { class: "grow" }, "The last hour"), h("span", { class: "legend" }, kinds.map((kind) => h("span", { style: { "--tone": `var(--${tones[kind]})` } }, kind)))),
    svg("svg", { class: "plot", viewBox: "0 0 600 118", preserveAspectRatio: "none", role: "img", "aria-label": `${count(all.length, "change")} seen` }, svg("line", { class: "axis", x1: 0, x2: 600, y1: 100.5, y2: 100.5, "vector-effect": "non-scaling-stroke" }), bars),
    h("div", { class: "bar faint" }, h("span", { class: "grow" }, "60 min ago"), h("span", null, `at most ${most} a minute`), h("span", { class: "grow" }), h("span", null, "now"))];
}
