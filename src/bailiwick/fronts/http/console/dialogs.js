// What stands in front of the page: questions, menus, short messages.

import { h, fill, icon } from "./dom.js";
import { plain } from "./words.js";

const layer = () => document.getElementById("layer");

export function toast(text, { detail, bad = false } = {}) {
  const note = h("div", { class: bad ? "toast bad" : "toast" }, text, detail ? h("small", null, detail) : null);
  document.getElementById("toasts").append(note);
  setTimeout(() => note.remove(), bad ? 9000 : 4000);
}

// Whoever decided is named: a rule or a hook, so that the person knows where to look.
export function complain(error) {
  if (error?.name === "AbortError") return;
  const parts = [error.hint, error.decidedBy ? `decided by ${error.decidedBy}` : null, error.kind ? `(${error.kind})` : null];
  toast(plain(error.message), { detail: parts.filter(Boolean).map(plain).join(" · "), bad: true });
}

export function dialog({ title, body, actions, wide = false }) {
  return new Promise((resolve) => {
    const before = document.activeElement;
    const close = (value) => { document.removeEventListener("keydown", onKey, true); fill(layer()); before?.focus?.(); resolve(value); };
    const onKey = (event) => { if (event.key === "Escape") { event.stopPropagation(); close(null); } };
    const content = typeof body === "function" ? body(close) : body;
    const buttons = actions.map((each) => h("button", { class: `button ${each.kind ?? ""}`, type: "button", onClick: async () => {
      const value = each.value instanceof Function ? await each.value() : each.value;
      if (value !== undefined) close(value);
    } }, each.label));
    const box = h("div", { class: wide ? "dialog wide" : "dialog", role: "dialog", "aria-modal": "true", "aria-label": title },
      h("header", null, h("h2", null, title)), h("div", { class: "body" }, content), h("footer", null, buttons));
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.target.tagName === "INPUT") { event.preventDefault(); buttons.at(-1).click(); }
    });
    document.addEventListener("keydown", onKey, true);
    fill(layer(), box);
    // What cannot be taken back is never one press of Enter away.
    (box.querySelector("input, textarea, select") ?? buttons.findLast((each) => !each.classList.contains("danger"))).focus();
    box.querySelector("input")?.select?.();
  });
}

export function confirm(title, text, label, kind = "main") {
  return dialog({ title, body: h("p", null, text), actions: [{ label: "Cancel", value: null }, { label, kind, value: true }] });
}

export function prompt(title, label, value = "", action = "OK") {
  const input = h("input", { class: "input", value, spellcheck: "false", autocomplete: "off" });
  return dialog({ title, body: h("label", { class: "field" }, label, input), actions: [{ label: "Cancel", value: null }, { label: action, kind: "main", value: () => input.value.trim() || undefined }] });
}

export function popup(anchor, choices) {
  document.querySelector(".popup")?.remove();
  const box = h("div", { class: "popup", role: "menu" }, choices.map((each) => h("button", { role: "menuitem", class: each.danger ? "danger" : "", onClick: () => { close(); each.run(); } }, icon(each.icon), each.label)));
  const close = () => { box.remove(); document.removeEventListener("pointerdown", outside, true); document.removeEventListener("keydown", onKey, true); };
  const outside = (event) => { if (!box.contains(event.target)) close(); };
  const onKey = (event) => {
    const buttons = [...box.children], at = buttons.indexOf(document.activeElement);
    if (event.key === "Escape") { close(); anchor.focus?.(); }
    else if (event.key === "ArrowDown") buttons[(at + 1) % buttons.length].focus();
    else if (event.key === "ArrowUp") buttons[(at + buttons.length - 1) % buttons.length].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  document.body.append(box);
  const at = anchor.getBoundingClientRect();
  box.style.left = `${Math.max(8, Math.min(at.right - box.offsetWidth, innerWidth - box.offsetWidth - 8))}px`;
  box.style.top = `${Math.min(at.bottom + 4, innerHeight - box.offsetHeight - 8)}px`;
  document.addEventListener("pointerdown", outside, true);
  document.addEventListener("keydown", onKey, true);
  box.firstChild.focus();
}
