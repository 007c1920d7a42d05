// The frame: what is open to choose, and the view that was chosen.

import { h, fill, icon } from "./dom.js";
import { state, on, begin, useRoot } from "./state.js";
import { here, go } from "./router.js";
import { complain, dialog } from "./dialogs.js";
import { plain } from "./words.js";
import { forgetKey, post, takeKey } from "./api.js";
import { tellHidden } from "./notices.js";
import { sentence } from "./questions.js";

const VIEWS = [
  ["files", "Files", "folder", () => import("./views/files.js")],
  ["search", "Search", "search", () => import("./views/search.js")],
  ["runs", "Runs", "play", () => import("./views/runs.js")],
  ["changes", "Changes", "pulse", () => import("./views/changes.js")],
  ["approvals", "Approvals", "shield", () => import("./views/approvals.js")],
  ["audit", "Audit", "book", () => import("./views/audit.js")],
  ["grants", "Grants", "key", () => import("./views/grants.js")],
  ["versions", "Versions", "fork", () => import("./views/versions.js")],
  ["storage", "Storage", "chart", () => import("./views/storage.js")],
];
// What is opened from another page, and from which.
const OPENED_FROM = {
  file: ["files", () => import("./views/file.js")],
  history: ["files", () => import("./views/history.js")],
  fork: ["versions", () => import("./views/fork.js")],
};

const main = h("main", { tabindex: "-1" });
const side = h("nav", { class: "side", "aria-label": "Views" });
const badge = h("span", { class: "badge", hidden: true });
const live = h("span", { class: "live", "data-on": "" }, h("span", null, "connecting"));
const rootChoice = h("select", { "aria-label": "Root", onChange: () => chooseRoot() });
const forkShown = h("span", { class: "chip accent", hidden: true });
let current = null;

function chooseRoot() {
  const root = state.roots[Number(rootChoice.value)];
  useRoot(root).then(() => go("files"), complain);
}

function theme() {
  const now = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("bailiwick.theme", next);
}

function shell() {
  for (const [name, label, drawing] of VIEWS) {
    side.append(h("a", { href: `#/${name}`, data: { view: name } }, icon(drawing), label, name === "approvals" ? badge : null));
  }
  side.append(h("div", { class: "who" }, plain(state.subject), h("br"), h("a", { href: "#", onClick: leave }, "Log out")));
  fill(document.getElementById("shell"),
    h("header", { class: "top" },
      h("button", { class: "button quiet menu-button", "aria-label": "Menu", onClick: () => { side.dataset.open = side.dataset.open === "yes" ? "no" : "yes"; } }, icon("menu")),
      h("a", { class: "brand", href: "#/files" }, h("img", { src: "/console/icon.svg", alt: "" }), h("span", null, "Bailiwick")),
      rootChoice, forkShown, h("span", { class: "grow" }), live,
      h("button", { class: "button quiet", "aria-label": "Light or dark", onClick: theme }, icon("sun")),
      h("button", { class: "button quiet only-wide", "aria-label": "Keys", onClick: keys }, h("kbd", null, "?"))),
    side, main);
  showRoots();
}

function showRoots() {
  fill(rootChoice, state.roots.map((root, at) => h("option", { value: String(at) }, plain(root.displayName || `${root.kind}:${root.id}`))));
  rootChoice.value = String(state.roots.indexOf(state.root));
  forkShown.hidden = !state.fork;
  forkShown.textContent = state.fork ? `fork ${plain(state.fork)}` : "";
}

async function leave(event) {
  event.preventDefault();
  await post("/logout", {}, { rooted: false }).catch(() => {});
  forgetKey();
  location.reload();
}

async function show() {
  const place = here();
  side.dataset.open = "no";
  const [marked, opened] = Object.hasOwn(OPENED_FROM, place.view) ? OPENED_FROM[place.view] : [place.view, null];
  const load = opened ?? VIEWS.find(([name]) => name === place.view)?.[3] ?? VIEWS[0][3];
  for (const each of side.querySelectorAll("a[data-view]")) {
    if (each.dataset.view === marked) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
  try {
    const { view } = await load();
    if (current?.leaving && !(await current.leaving())) { history.back(); return; }
    current?.close?.();
    current = view(place);
    fill(main, current.element);
    document.title = `${current.title ?? "Bailiwick"} · Bailiwick`;
  } catch (error) { complain(error); }
}

const KEYS = [["g f", "files"], ["g r", "runs"], ["g c", "changes"], ["g a", "approvals"], ["g l", "audit ledger"], ["/", "search"], ["j k", "down, up"], ["Enter", "open"], ["Backspace", "one level up"], ["n", "new file"], ["e", "edit the file"], ["Ctrl S", "save"], ["n p y r u", "runs: next lines, lines before, agree, reject with a note, take them back"], ["y g a n", "approvals: once, for this grant, always, no"], ["?", "this list"]];

function keys() {
  dialog({ title: "Keys", body: h("table", { class: "rows" }, KEYS.map(([key, what]) => h("tr", null, h("td", null, h("kbd", null, key)), h("td", null, what)))), actions: [{ label: "Close", kind: "main", value: true }] });
}

let waiting = "";
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey || document.querySelector(".dialog")) return;
  if (waiting === "g") {
    waiting = "";
    const view = { f: "files", r: "runs", c: "changes", a: "approvals", l: "audit", s: "storage", v: "versions" }[event.key];
    if (view) { go(view); return; }
  }
  if (current?.key?.(event)) { event.preventDefault(); return; }
  if (event.key === "g") { waiting = "g"; setTimeout(() => { waiting = ""; }, 900); }
  else if (event.key === "/") { event.preventDefault(); go("search"); }
  else if (event.key === "?") keys();
});

function login(error) {
  const unknown = error.status === 401;
  fill(document.getElementById("shell"), h("div", { class: "login" }, h("div", { class: "card" },
    h("a", { class: "brand", href: "/" }, h("img", { src: "/console/icon.svg", alt: "" }), h("span", null, "Bailiwick")),
    h("h1", null, unknown ? "Log in by link" : "The server does not answer"),
    h("p", { class: "soft" }, unknown
      ? "This console opens with a link that works once. The server prints one when it starts; this makes another:"
      : plain(error.message)),
    unknown ? h("pre", { class: "card padded" }, "bailiwick grant token --link") : h("button", { class: "button main", type: "button", onClick: () => location.reload() }, "Try again"))));
}

const kept = localStorage.getItem("bailiwick.theme");
if (kept) document.documentElement.dataset.theme = kept;

on("live", (yes) => { live.dataset.on = yes ? "yes" : "no"; live.firstChild.textContent = yes ? "live" : "not connected"; });
on("pending", (asked) => {
  badge.hidden = !asked.length;
  badge.textContent = String(asked.length);
  document.title = document.title.replace(/^\(\d+\) /, "");
  if (asked.length) document.title = `(${asked.length}) ${document.title}`;
});
on("approvals", (asked) => tellHidden(asked, sentence));
on("root", showRoots);

takeKey();
try {
  await begin();
  shell();
  addEventListener("hashchange", show);
  await show();
} catch (error) { login(error); }
