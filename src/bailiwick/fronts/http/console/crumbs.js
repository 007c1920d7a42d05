// Where something lies, each directory of it a link.

import { h } from "./dom.js";
import { link } from "./router.js";
import { plain } from "./words.js";
import { state } from "./state.js";

export function crumbs(path, last = null) {
  const parts = path === "." ? [] : path.split("/"), items = [];
  const top = state.root ? state.root.displayName || state.root.id : "root";
  items.push(parts.length ? h("a", { href: link("files") }, plain(top)) : h("b", null, plain(top)));
  parts.forEach((part, at) => {
    items.push(h("i", null, "/"));
    const upto = parts.slice(0, at + 1).join("/");
    items.push(at === parts.length - 1 ? h("b", { title: plain(path) }, plain(part)) : h("a", { href: link("files", upto) }, plain(part)));
  });
  return h("nav", { class: "crumbs grow", "aria-label": "Path" }, items, last);
}
