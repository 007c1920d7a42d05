// One fork beside this branch: what it would do here, piece by piece, taken over or given up, and
// settled where both sides changed the same.

import { h, fill, icon } from "../dom.js";
import { link } from "../router.js";
import { plain } from "../words.js";
import { ChangedFiles, asShown, ofFork } from "../changed_files.js";
import { accept, reject } from "../verdicts.js";

export function view({ path: name }) {
  const page = { name, list: h("div", { class: "card fill" }) };
  load(page);
  const bar = h("div", { class: "bar" }, h("h1", { class: "grow" }, `Fork ${plain(name)}`), h("a", { class: "button", href: link("versions") }, icon("back"), "All forks"),
    h("button", { class: "button main", title: "Have here all that was changed there", onClick: () => page.files && accept({ accept: [asShown(name, page.files.version)], ofFork: name }, () => load(page)) }, icon("fork"), "Merge everything"));
  return { element: h("div", { class: "page" }, bar, page.list), title: `Fork ${name}`, key: (event) => page.files?.key(event) ?? false, close: () => page.files?.close() };
}

async function load(page) {
  const of = { ofFork: page.name }, again = () => load(page);
  const files = new ChangedFiles(ofFork(page.name), { accept: (ids, how) => accept({ accept: ids, ...how, ...of }, again), reject: (ids, what) => reject(ids, what, { of }, again) });
  const place = page.files?.place();
  try {
    await files.begin();
    page.files?.close();
    page.files = files;
    fill(page.list, files.element);
    files.goTo(place);
  } catch (error) { fill(page.list, h("div", { class: "empty" }, icon("fork"), h("b", null, plain(error.message)), plain(error.hint ?? ""))); }
}
