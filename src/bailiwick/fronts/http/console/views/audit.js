// The ledger: what was done and what was refused, by whom, and the proof that nothing is missing.

import { h, fill, icon } from "../dom.js";
import * as api from "../api.js";
import { link } from "../router.js";
import { complain, dialog, toast } from "../dialogs.js";
import { count, moment, plain, size } from "../words.js";

const PAGE = 200, EXPORTED_MAX = 100000;
const TONES = { success: "good", denied: "bad", failed: "warn" };
const OPERATIONS = ["read", "metadata", "list", "search", "write", "edit", "delete", "move", "copy", "copy-in", "archive-extract", "archive-create", "watch", "version", "exec"];

export function view({ query }) {
  const fields = {
    subject: h("input", { class: "input", placeholder: "subject, e.g. agent_run:*", value: query.get("subject") ?? "", "aria-label": "Subject" }),
    path: h("input", { class: "input", placeholder: "path", value: query.get("path") ?? "", "aria-label": "Path" }),
    operation: choice("any operation", OPERATIONS, query.get("operation")),
    outcome: choice("any outcome", ["success", "denied", "failed"], query.get("outcome")),
    requestId: h("input", { class: "input", placeholder: "request id", value: query.get("requestId") ?? "", "aria-label": "Request id" }),
  };
  const rows = h("tbody"), proof = h("div"), foot = h("div", { class: "bar" });
  const page = { fields, rows, foot, cursor: null };
  let timer;
  for (const field of Object.values(fields)) field.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => load(page, true), 250); });
  const element = h("div", { class: "page scrolls" },
    h("div", { class: "bar" }, h("h1", { class: "grow" }, "Audit ledger"), h("button", { class: "button", onClick: () => verify(proof) }, icon("shield"), "Verify"), h("button", { class: "button", onClick: () => save(page) }, icon("down"), "Export")),
    proof, h("div", { class: "bar" }, Object.values(fields)),
    h("div", { class: "card" }, h("table", { class: "rows stacked records" }, h("thead", null, h("tr", null, ["Time", "Outcome", "Who", "What", "Where", "Decided by"].map((each, at) => h("th", { class: at === 5 ? "only-wide" : "" }, each)))), rows)), foot);
  load(page, true);
  return { element, title: "Audit" };
}

function choice(any, values, chosen) {
  const field = h("select", { "aria-label": any }, h("option", { value: "" }, any), values.map((each) => h("option", { value: each }, each)));
  field.value = chosen ?? "";
  return field;
}

const filters = (page) => Object.fromEntries(Object.entries(page.fields).map(([name, field]) => [name, field.value.trim()]));

async function load(page, anew) {
  try {
    const answer = await api.get("/audit", { ...filters(page), limit: PAGE, cursor: anew ? null : page.cursor }, { rooted: false });
    page.cursor = answer.nextCursor;
    if (anew) fill(page.rows);
    page.rows.append(...answer.records.map(row));
    if (!page.rows.children.length) page.rows.append(h("tr", null, h("td", { colspan: "6" }, h("div", { class: "empty" }, "No record matches."))));
    fill(page.foot, answer.nextCursor ? h("button", { class: "button", onClick: () => load(page, false) }, "Older records") : h("span", { class: "faint" }, "That is all."));
  } catch (error) { complain(error); }
}

function row(record) {
  return h("tr", { onClick: () => details(record) }, h("td", { class: "faint" }, moment(record.timeMs)), h("td", null, h("span", { class: `chip ${TONES[record.outcome]}`, title: plain(record.errorKind ?? "") }, record.errorKind ? plain(record.errorKind) : record.outcome)),
    h("td", null, plain(record.subject)), h("td", null, plain(record.verb === "authority" ? record.operation : record.verb)),
    h("td", null, record.path ? h("a", { href: link("file", record.path), onClick: (event) => event.stopPropagation() }, plain(record.path)) : plain(record.root ?? ""), record.destination ? ` → ${plain(record.destination)}` : ""), h("td", { class: "only-wide soft" }, plain(record.policySource ?? "")));
}

function details(record) {
  const facts = { ...record, ...record.details, time: moment(record.timeMs), bytes: record.bytes === null ? null : size(record.bytes), durationNs: `${(record.durationNs / 1e6).toFixed(2)} ms` };
  delete facts.details; delete facts.timeMs;
  dialog({ title: `Record ${record.seq}`, body: h("table", { class: "rows" }, Object.entries(facts).filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && !value.length)).map(([name, value]) => h("tr", null, h("td", { class: "faint" }, name), h("td", { class: "mono" }, plain(value))))), actions: [{ label: "Close", kind: "main", value: true }] });
}

async function verify(proof) {
  fill(proof, h("div", { class: "notice" }, "Checking every record…"));
  try {
    const found = await api.get("/audit/verify", {}, { rooted: false });
    fill(proof, found.ok
      ? h("div", { class: "notice good" }, icon("check"), h("b", null, `${count(found.records, "record")} verified.`), found.tailProved ? "" : "A cut end shows only against a head kept elsewhere:", h("code", { class: "cut" }, found.head))
      : h("div", { class: "notice bad" }, icon("cross"), h("b", null, `Record ${found.firstBadSeq} is not as it was written.`), plain(found.firstBadWhy ?? found.words)));
  } catch (error) { fill(proof); complain(error); }
}

// All records that match, as JSON lines, put together here so that the filters are the same.
async function save(page) {
  const lines = [];
  let cursor = null;
  try {
    do {
      const answer = await api.get("/audit", { ...filters(page), limit: 1000, cursor }, { rooted: false });
      lines.push(...answer.records.map((each) => JSON.stringify(each)));
      cursor = answer.nextCursor;
    } while (cursor && lines.length < EXPORTED_MAX);
  } catch (error) { complain(error); return; }
  const anchor = h("a", { href: URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "application/x-ndjson" })), download: "audit.jsonl" });
  anchor.click();
  URL.revokeObjectURL(anchor.href);
  toast(`Exported ${count(lines.length, "record")}`, { detail: cursor ? "There are more: use bailiwick audit export." : "" });
}
