// Who may do what, where, until when; and the end of it. A token lets an agent in.

import { h, fill, icon } from "../dom.js";
import * as api from "../api.js";
import { state } from "../state.js";
import { complain, confirm, dialog, toast } from "../dialogs.js";
import { left, moment, plain } from "../words.js";

const ACCESS = ["read", "list", "metadata", "watch", "write", "delete", "move", "archive", "execute"];

export function view() {
  const page = { rows: h("tbody"), matrix: h("div"), tokens: h("tbody") };
  const element = h("div", { class: "page scrolls" },
    h("div", { class: "bar" }, h("h1", { class: "grow" }, "Grants"), h("button", { class: "button", onClick: () => make(page) }, icon("plus"), "Grant"), h("button", { class: "button main", onClick: () => letIn(page) }, icon("key"), "Let an agent in")),
    page.matrix,
    h("div", { class: "card" }, h("table", { class: "rows tokens" }, h("thead", null, h("tr", null, ["Token", "Whose", "Until", ""].map((each) => h("th", null, each)))), page.tokens)),
    h("div", { class: "card" }, h("table", { class: "rows stacked grants" }, h("thead", null, h("tr", null, ["Who", "Where", "May", "Until", ""].map((each) => h("th", null, each)))), page.rows)));
  load(page);
  const clock = setInterval(() => load(page), 5000);
  return { element, title: "Grants", close: () => clearInterval(clock) };
}

async function load(page) {
  try {
    const [{ grants, truncated }, { tokens }] = await Promise.all([api.get("/grants", {}, { rooted: false }), api.get("/tokens", {}, { rooted: false })]);
    fill(page.tokens, tokens.length ? tokens.map((each) => token(page, each)) : h("tr", null, h("td", { colspan: "4", class: "soft" }, "No agent has a token.")));
    const rest = truncated ? h("tr", null, h("td", { colspan: "5", class: "soft" }, "There are older grants than these: bailiwick grant list shows all.")) : null;
    fill(page.rows, grants.length ? [grants.map((each) => row(page, each)), rest] : h("tr", null, h("td", { colspan: "5" }, h("div", { class: "empty" }, icon("key"), "Nobody holds a grant."))));
    fill(page.matrix, whoMayWhat(grants.filter((each) => each.holds)));
  } catch (error) { complain(error); }
}

function row(page, grant) {
  const over = !grant.holds;
  return h("tr", { class: over ? "faint" : "" },
    h("td", null, h("b", null, plain(grant.subject)), grant.reason ? h("div", { class: "soft" }, plain(grant.reason)) : null, h("div", { class: "faint mono" }, plain(grant.id.slice(0, 12)), grant.parent ? ` from ${plain(grant.parent.slice(0, 12))}` : "")),
    h("td", null, plain(grant.root), grant.path && grant.path !== "." ? `/${plain(grant.path)}` : ""),
    h("td", null, h("div", { class: "bar" }, grant.access.map((each) => h("span", { class: `chip ${["write", "delete", "move", "archive"].includes(each) ? "warn" : ""}` }, each)))),
    h("td", null, over ? h("span", { class: "chip bad" }, "ended") : grant.expiresMs ? h("span", { title: moment(grant.expiresMs) }, left(grant.expiresMs)) : "no end"),
    h("td", null, over ? null : h("button", { class: "button danger", onClick: () => revoke(page, grant) }, "Revoke")));
}

function token(page, each) {
  return h("tr", { data: { token: each.name } }, h("td", null, h("b", null, plain(each.name))), h("td", null, plain(each.subject)),
    h("td", null, each.expiresMs ? h("span", { title: moment(each.expiresMs) }, left(each.expiresMs)) : "no end"),
    h("td", null, h("button", { class: "button danger", onClick: () => endToken(page, each) }, "End")));
}

async function endToken(page, each) {
  if (!(await confirm("End this token?", `Whoever shows ${plain(each.name)} is refused from the next request on.`, "End", "danger"))) return;
  await api.drop(`/tokens/${encodeURIComponent(each.name)}`, { rooted: false }).then(() => toast("Ended"), complain);
  await load(page);
}

// One step: a name, what it may do here, and the line to give to the agent.
async function letIn(page) {
  const name = h("input", { class: "input", value: "agent", spellcheck: "false" }), hours = h("input", { class: "input", type: "number", min: "0", value: "8" });
  const root = h("select", null, state.roots.map((each) => h("option", { value: `${each.kind}:${each.id}` }, `${each.kind}:${each.id}`)));
  root.value = `${state.root.kind}:${state.root.id}`;
  const ticks = accesses(["read", "list", "metadata", "watch", "write", "delete", "move"]);
  const wanted = await dialog({
    title: "Let an agent in",
    body: [h("label", { class: "field" }, "Name", name), h("label", { class: "field" }, "Root", root), h("div", { class: "bar" }, ticks), h("label", { class: "field" }, "Hours (0: no end)", hours)],
    actions: [{ label: "Cancel", value: null }, { label: "Make a token", kind: "main", value: () => ({ name: name.value.trim(), root: root.value, access: chosen(ticks), expiresIn: lasting(hours) }) }],
  });
  if (!wanted) return;
  try {
    const made = await api.post("/tokens", wanted, { rooted: false });
    await dialog({
      title: `The token of ${plain(made.name)}`, wide: true,
      body: [h("p", { class: "notice" }, "It is shown this once."), h("label", { class: "field" }, "Token", copied(made.token)),
        h("label", { class: "field" }, "A first look with it", copied(`bailiwick -p ${location.origin} --token ${made.token} ls`)),
        h("p", { class: "soft" }, `It is for ${plain(made.subject)}, who may ${made.access.join(", ")} in ${plain(made.root)}.`)],
      actions: [{ label: "Done", kind: "main", value: true }],
    });
  } catch (error) { complain(error); }
  await load(page);
}

const copied = (text) => h("input", { class: "input mono", readonly: true, value: text, onFocus: (event) => event.target.select() });

const accesses = (ticked) => ACCESS.map((each) => h("label", { class: "tick" }, h("input", { type: "checkbox", value: each, checked: ticked.includes(each) }), each));
const chosen = (ticks) => ticks.map((each) => each.firstChild).filter((each) => each.checked).map((each) => each.value);
const lasting = (hours) => (Number(hours.value) ? Number(hours.value) * 3600 : null);

async function revoke(page, grant) {
  if (!(await confirm("Revoke this grant?", `${plain(grant.subject)} is refused from its next operation on, and so is everyone it passed the grant on to.`, "Revoke", "danger"))) return;
  await api.post(`/grants/${encodeURIComponent(grant.id)}/revoke`, {}, { rooted: false }).then(() => toast("Revoked"), complain);
  await load(page);
}

// One row a subject and root: a mark where it holds the access.
function whoMayWhat(grants) {
  const held = new Map();
  for (const grant of grants) {
    const name = `${grant.subject}\n${grant.root}`;
    if (!held.has(name)) held.set(name, new Set());
    for (const each of grant.access) held.get(name).add(each);
  }
  if (!held.size) return null;
  return h("div", { class: "card scroll" }, h("table", { class: "rows named" }, h("thead", null, h("tr", null, h("th", null, "Who may what"), ACCESS.map((each) => h("th", null, each)))),
    h("tbody", null, [...held].map(([name, access]) => { const [subject, root] = name.split("\n"); return h("tr", null, h("td", null, h("b", null, plain(subject)), " ", h("span", { class: "soft" }, plain(root))), ACCESS.map((each) => h("td", null, access.has(each) ? icon("check", "yes") : ""))); }))));
}

async function make(page) {
  const subject = h("input", { class: "input", value: "agent_run:*" }), path = h("input", { class: "input", value: "." }), hours = h("input", { class: "input", type: "number", min: "0", value: "8" }), reason = h("input", { class: "input" });
  const root = h("select", null, state.roots.map((each) => h("option", null, `${each.kind}:${each.id}`)));
  const ticks = accesses(["read", "list", "metadata"]);
  const wanted = await dialog({
    title: "New grant",
    body: [h("label", { class: "field" }, "Who", subject), h("label", { class: "field" }, "Root", root), h("label", { class: "field" }, "Only beneath", path), h("div", { class: "bar" }, ticks), h("label", { class: "field" }, "Hours (0: no end)", hours), h("label", { class: "field" }, "Reason", reason)],
    actions: [{ label: "Cancel", value: null }, { label: "Grant", kind: "main", value: () => ({ subject: subject.value.trim(), root: root.value, path: path.value.trim() || ".", access: chosen(ticks), expiresIn: lasting(hours), reason: reason.value }) }],
  });
  if (!wanted) return;
  await api.post("/grants", wanted, { rooted: false }).then(() => toast("Granted"), complain);
  await load(page);
}
