// Questions for a person. Everything needed to say yes or no in ten seconds is on one screen: who,
// what, where, why they are asked, what would change, and how long there is.

import { h, fill, icon } from "../dom.js";
import * as api from "../api.js";
import { countPending, on } from "../state.js";
import { complain, confirm, dialog, toast } from "../dialogs.js";
import { ago, left, moment, plain, size } from "../words.js";
import { fromUnified } from "../difference.js";
import { offer } from "../notices.js";
import { asksRoot, sentence } from "../questions.js";

const PAST = 200;

const ANSWERS = [
  ["once", "Allow once", "y", "main"],
  ["grant", "For this grant", "g", ""],
  ["always", "Always", "a", ""],
  ["no", "No", "n", "danger"],
];

// A root is granted for the time that is asked for, or not: no answer makes it last.
const answersTo = (each) => (asksRoot(each) ? ANSWERS.filter(([answer]) => answer === "once" || answer === "no").map(([answer, label, ...rest]) => [answer, answer === "once" ? "Grant it for this time" : label, ...rest]) : ANSWERS);

export function view({ path }) {
  const page = { chosen: path === "." ? null : path, waiting: [], list: h("div", { class: "card choices" }), detail: h("div", { class: "card" }) };
  const lasting = h("button", { class: "button", title: "What was answered for longer than once", onClick: () => rules() }, icon("key"), "Lasting answers");
  const past = h("button", { class: "button", "aria-pressed": "false", onClick: () => { page.past = !page.past; past.setAttribute("aria-pressed", String(page.past)); page.drawn = null; refresh(page); } }, icon("clock"), "Answered");
  const element = h("div", { class: "page" }, h("div", { class: "bar" }, h("h1", { class: "grow" }, "Approvals"), offer(), lasting, past), h("div", { class: "split" }, page.list, page.detail));
  const forget = on("approvals", (waiting) => { if (!page.past) show(page, waiting); });
  const clock = setInterval(() => tick(page), 1000);
  refresh(page);
  return { element, title: "Approvals", key: (event) => key(event, page), close: () => { forget(); clearInterval(clock); } };
}

async function refresh(page) {
  page.cursor = null;
  try {
    const answer = await api.get("/approvals", page.past ? { state: "all", limit: PAST } : {}, { rooted: false });
    page.cursor = page.past ? answer.nextCursor : null;
    show(page, page.past ? answered(answer) : answer.approvals);
  } catch (error) { complain(error); }
}

const answered = (answer) => answer.approvals.filter((each) => each.state !== "pending");

async function older(page) {
  const { cursor } = page;
  page.cursor = null;
  try {
    const answer = await api.get("/approvals", { state: "all", limit: PAST, cursor }, { rooted: false });
    if (!page.past) return;
    page.cursor = answer.nextCursor;
    page.drawn = null;
    show(page, [...page.waiting, ...answered(answer)]);
  } catch (error) { page.cursor = cursor; complain(error); }
}

function show(page, waiting) {
  page.waiting = waiting;
  if (!waiting.some((each) => each.id === page.chosen)) page.chosen = waiting[0]?.id ?? null;
  const seen = JSON.stringify([page.chosen, waiting.map((each) => [each.id, each.state])]);
  if (seen === page.drawn) return;
  page.drawn = seen;
  fill(page.list, waiting.length ? waiting.map((each) => h("button", { class: "choice", "aria-current": each.id === page.chosen ? "true" : "false", onClick: () => { page.chosen = each.id; page.drawn = null; show(page, page.waiting); } },
    h("b", null, sentence(each)), h("small", null, plain(each.subject)), h("small", null, each.state === "pending" ? h("span", { data: { until: each.expiresMs } }, `${left(each.expiresMs)} left`) : `${each.answer ?? each.state} by ${plain(each.answeredBy ?? "nobody")} · ${ago(each.answeredMs ?? each.askedMs)}`)))
    : h("div", { class: "empty" }, icon("shield"), h("b", null, page.past ? "Nothing was answered yet." : "Nobody is waiting for you."), page.past ? "" : "Questions of agents appear here at once."),
    page.cursor ? h("button", { class: "choice", onClick: () => older(page) }, "Older answers") : null);
  const chosen = waiting.find((each) => each.id === page.chosen);
  page.shownAt = performance.now();
  fill(page.detail, chosen ? question(page, chosen) : h("div", { class: "empty" }, "Rules with the effect “ask” put their questions here."));
}

function question(page, each) {
  const open = each.state === "pending";
  return [
    h("div", { class: "question" },
      h("div", { class: "bar" }, h("span", { class: "chip accent" }, plain(each.subject)), h("span", { class: "soft" }, "wants to"), open ? h("span", { class: "chip warn", data: { until: each.expiresMs } }, `${left(each.expiresMs)} left`) : h("span", { class: `chip ${each.state === "denied" || each.state === "expired" ? "bad" : "good"}` }, plain(each.answer ?? each.state))),
      h("h2", null, sentence(each)),
      each.prompt ? h("p", { class: "why" }, plain(each.prompt)) : null,
      h("div", { class: "meta" }, h("span", null, plain(each.root)), h("span", null, `asked by ${each.decidedBy.map(plain).join(", ")}`), each.reason ? h("span", null, `reason given: ${plain(each.reason)}`) : null, each.arguments && !asksRoot(each) ? h("span", { class: "mono" }, plain(each.arguments)) : null, each.sizeBytes !== null ? h("span", null, size(each.sizeBytes)) : null, h("span", null, moment(each.askedMs)), h("span", null, `if nobody answers: ${each.default === "allow" ? "allowed" : "refused"}`))),
    h("div", { class: "scroll grow" }, each.pathsTotal > 1 ? h("table", { class: "rows" }, each.paths.map((path) => h("tr", null, h("td", { class: "mono" }, plain(path)))), each.pathsTotal > each.paths.length ? h("tr", null, h("td", { class: "faint" }, `and ${each.pathsTotal - each.paths.length} more`)) : null) : null,
      each.diff ? fromUnified(each.diff, each.diffTruncated) : h("div", { class: "empty" }, asksRoot(each) ? "A yes grants this to this subject alone, and ends by itself. It can be revoked under Grants." : "There is no text to compare.")),
    open ? h("div", { class: "verdict" }, answersTo(each).map(([answer, label, shortcut, kind]) => h("button", { class: `button big ${kind}`, title: meaning(answer, each), onClick: () => press(page, each, [answer, label]) }, label, h("kbd", null, shortcut)))) : null,
  ];
}

// What was answered for longer, each with a way back: from then on it is asked again.
async function rules() {
  try {
    const box = h("div", { class: "card scroll" }), { rules: found } = await api.get("/rules", {}, { rooted: false });
    const draw = (left) => fill(box, left.length ? h("table", { class: "rows" }, left.map((each) => h("tr", { data: { rule: each.id } },
      h("td", null, h("span", { class: `chip ${each.effect === "allow" ? "good" : "bad"}` }, each.effect === "allow" ? "allowed" : "refused"), " ", h("b", null, `${plain(each.operation)} ${plain(each.command ?? each.paths.join(", "))}${each.destination ? ` → ${plain(each.destination)}` : ""}`),
        h("br"), h("small", { class: "soft" }, `${each.grantId ? "for one grant of" : "always, for"} ${plain(each.subject)} in ${plain(each.root)} · said by ${plain(each.by)} · ${ago(each.createdMs)}`)),
      h("td", null, h("button", { class: "button", onClick: () => forget(each, left.filter((other) => other !== each), draw) }, icon("back"), "Take back")))))
      : h("div", { class: "empty" }, icon("shield"), h("b", null, "Nothing was answered for longer than once.")));
    draw(found);
    await dialog({ title: "Lasting answers", body: [h("p", { class: "soft" }, "What is taken back is asked again."), box], actions: [{ label: "Close", kind: "main", value: true }] });
  } catch (error) { complain(error); }
}

async function forget(each, left, draw) {
  try {
    await api.drop(`/rules/${encodeURIComponent(each.id)}`, { rooted: false });
    draw(left);
    toast("Taken back", { detail: "It is asked again from now on." });
  } catch (error) { complain(error); }
}

function meaning(answer, each) {
  if (asksRoot(each)) return answer === "once" ? "To this subject alone; it ends by itself." : "Nothing is granted.";
  if (answer === "once") return "This call only, and exactly these bytes.";
  if (answer === "grant") return "This operation on these paths, as long as the grant lives.";
  if (answer === "always") return `Writes a rule for ${plain(each.alwaysFor)}: this operation on these paths.`;
  return "Refuse this call.";
}

// What lasts longer than this call is asked once more.
async function press(page, each, [answer, label]) {
  const lasting = answer === "grant" || answer === "always";
  if (lasting && !(await confirm(`${label}?`, meaning(answer, each), label))) return;
  await say(page, each, answer);
}

async function say(page, each, answer) {
  try {
    await api.post(`/approvals/${encodeURIComponent(each.id)}`, { answer }, { rooted: false });
    toast(answer === "no" ? "Refused" : "Allowed", { detail: sentence(each) });
  } catch (error) { complain(error); }
  page.chosen = null;
  page.drawn = null;
  await countPending();
  await refresh(page);
}

function tick(page) {
  for (const each of page.list.parentElement.querySelectorAll("[data-until]")) each.textContent = `${left(Number(each.dataset.until))} left`;
}

// One press answers one question that was read: a key that is held down, or was meant for the page
// before, answers nothing.
const READ_FIRST_MS = 700;

function key(event, page) {
  if (event.repeat) return true;
  const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
  const at = page.waiting.findIndex((each) => each.id === page.chosen);
  if (step && at >= 0) {
    page.chosen = page.waiting[Math.max(0, Math.min(page.waiting.length - 1, at + step))].id;
    page.drawn = null;
    show(page, page.waiting);
    return true;
  }
  const answer = at < 0 ? null : answersTo(page.waiting[at]).find(([, , shortcut]) => shortcut === event.key);
  if (!answer || page.waiting[at].state !== "pending") return false;
  if (performance.now() - page.shownAt >= READ_FIRST_MS) press(page, page.waiting[at], answer);
  return true;
}
