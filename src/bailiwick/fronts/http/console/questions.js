// What a question to a person asks, in words.

import { count, plain } from "./words.js";

const DOING = { write: "write", edit: "edit", delete: "remove", move: "move", copy: "copy", read: "read", list: "list", "archive-extract": "unpack", "archive-create": "pack", search: "search", version: "change versions of" };

// Whether somebody asks for a root that nobody granted.
export const asksRoot = (each) => each.verb === "request_root";

export function sentence(each) {
  if (asksRoot(each)) return `have ${each.target === "." ? plain(each.root) : `${plain(each.target)} in ${plain(each.root)}`}: ${plain(each.arguments)}`;
  const where = each.target || each.paths[0] || "";
  return `${DOING[each.operation] ?? each.operation} ${plain(where)}${each.destination ? ` → ${plain(each.destination)}` : ""}${each.pathsTotal > 1 ? ` (${count(each.pathsTotal, "path")})` : ""}`;
}
