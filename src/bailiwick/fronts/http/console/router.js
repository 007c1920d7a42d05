// Places in the console: `#/files/src/a.py`. Each segment is escaped, so any name is a place.

export function link(view, path = "", query = {}) {
  const way = path === "." ? "" : path.split("/").map(encodeURIComponent).join("/");
  const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "")).toString();
  return `#/${view}${way ? "/" + way : ""}${text ? "?" + text : ""}`;
}

export function here() {
  const [way, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view = "", ...rest] = way.split("/");
  let path;
  try { path = rest.filter(Boolean).map(decodeURIComponent).join("/") || "."; } catch { path = "."; }
  return { view: view || "files", path, query: new URLSearchParams(query) };
}

export function go(view, path, query) { location.hash = link(view, path, query); }
