// One run in the order it happened: what it called itself, what it did, what it ran, what was
// asked and refused. Reads in a row are one line: there are many, and they changed nothing.

import { h, fill } from "./dom.js";
import * as api from "./api.js";
import { link } from "./router.js";
import { count, moment, plain } from "./words.js";

const PAGE = 500;
const QUIET = new Set(["read", "list", "metadata", "search", "watch"]);
const TONES = { success: "", denied: "bad", failed: "warn" };

export function timeline(run) {
  const lines = h("ol", { class: "timeline" }), earlier = h("div", { class: "bar" }), element = h("div", { class: "scroll grow" }, earlier, lines);
  const page = { run, lines, earlier, records: [], cursor: null };
  more(page);
  return element;
}

async function more(page) {
  const { run } = page, wanted = { subject: run.subject, root: run.root, since: run.begunMs, until: run.seenMs + 1, limit: PAGE, cursor: page.cursor };
  try {
    const told = await api.get("/audit", wanted, { rooted: false });
    page.cursor = told.nextCursor;
    page.records.push(...told.records.filter((each) => each.front === run.front));
    fill(page.lines, page.records.length ? grouped(page).reverse().map(line) : h("div", { class: "empty" }, "Nothing is on record of it any more."));
    fill(page.earlier, page.cursor ? h("button", { class: "button", onClick: () => more(page) }, "Show what was before") : null);
  } catch (error) { fill(page.earlier, h("span", { class: "soft" }, plain(error.message))); }
}

// Newest first, as the ledger tells it, each step behind the calls that belong to it.
function grouped({ run, records, cursor }) {
  const steps = [...run.steps].reverse(), found = [];
  const named = (until) => { while (steps.length && steps[0].begunMs > until) found.push({ step: steps.shift() }); };
  for (const record of records) {
    named(record.timeMs);
    const quiet = record.outcome === "success" && QUIET.has(record.operation), last = found.at(-1);
    if (quiet && last?.quiet) { last.quiet += 1; last.timeMs = record.timeMs; }
    else found.push(quiet ? { quiet: 1, record, timeMs: record.timeMs } : { record });
  }
  if (!cursor) named(-1);
  return found;
}

// Where something was, or came to be: what was refused may lie nowhere that can be looked at.
function place({ path, outcome }) {
  if (!path || path === ".") return null;
  return outcome === "success" ? h("a", { href: link("file", path) }, plain(path)) : plain(path);
}

function line({ step, quiet, record }) {
  if (step) return h("li", { class: "step" }, h("span", { class: "faint" }, moment(step.begunMs).slice(11)), h("b", null, plain(step.name)));
  if (quiet > 1) return h("li", null, h("span", { class: "faint" }, moment(record.timeMs).slice(11)), h("span", { class: "soft" }, count(quiet, "look", "looks")));
  const command = record.details?.command;
  return h("li", { class: TONES[record.outcome] },
    h("span", { class: "faint" }, moment(record.timeMs).slice(11)),
    h("span", null, h("b", null, plain(record.verb === "authority" ? record.operation : record.verb)), " ",
      command ? h("code", null, plain(command)) : place(record),
      record.destination ? ` → ${plain(record.destination)}` : null,
      record.errorKind ? [" ", h("span", { class: `chip ${TONES[record.outcome]}` }, plain(record.errorKind))] : null,
      record.approvalId ? [" ", h("span", { class: "chip accent" }, "asked")] : null,
      record.policySource && record.outcome === "denied" ? h("small", { class: "soft" }, ` by ${plain(record.policySource)}`) : null));
}
