// What is wider than the screen can be scrolled with keys, too.
function reachable() {
  for (const each of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
    else each.removeAttribute("tabindex");
  }
}
addEventListener("load", reachable);
addEventListener("resize", reachable);
