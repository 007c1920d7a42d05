// How much was changed over time: bars stacked by what was done.

import { h, svg } from "./dom.js";
import { count } from "./words.js";

const KINDS = ["created", "updated", "moved", "deleted"];
const TONES = { created: "good", updated: "accent", moved: "warn", deleted: "bad" };
const BARS = 60, MINUTE = 60000;

export const SPANS = { hour: { label: "Hour", each: MINUTE, ago: "60 min ago", a: "minute" }, day: { label: "Day", each: 24 * MINUTE, ago: "a day ago", a: "24 minutes" }, month: { label: "30 days", each: 12 * 60 * MINUTE, ago: "30 days ago", a: "half day" } };

export const begins = (span, now = Date.now()) => now - BARS * SPANS[span].each;

// `whole` is false where older entries were not read: then the bars are of what was.
export function activity(entries, span, whole) {
  const now = Date.now(), { each, ago, a } = SPANS[span], bins = Array.from({ length: BARS }, () => ({}));
  let seen = 0;
  for (const change of entries) {
    const age = Math.floor((now - change.timeMs) / each);
    if (age >= BARS) break;
    if (age < 0 || !KINDS.includes(change.kind)) continue;
    const bin = bins[BARS - 1 - age];
    bin[change.kind] = (bin[change.kind] ?? 0) + 1;
    seen += 1;
  }
  const most = Math.max(1, ...bins.map((bin) => KINDS.reduce((sum, kind) => sum + (bin[kind] ?? 0), 0)));
  const bars = bins.map((bin, at) => {
    let top = 100;
    return KINDS.filter((kind) => bin[kind]).map((kind) => { const height = (bin[kind] / most) * 90; top -= height; return svg("rect", { class: kind, x: at * 10 + 1, y: top, width: 8, height, rx: 1 }); });
  });
  return [h("div", { class: "bar" }, h("b", { class: "grow" }, whole ? count(seen, "change") : `At least ${count(seen, "change")}: older ones are not counted`), h("span", { class: "legend" }, KINDS.map((kind) => h("span", { style: { "--tone": `var(--${TONES[kind]})` } }, kind)))),
    svg("svg", { class: "plot", viewBox: "0 0 600 118", preserveAspectRatio: "none", role: "img", "aria-label": `${count(seen, "change")} seen` }, svg("line", { class: "axis", x1: 0, x2: 600, y1: 100.5, y2: 100.5, "vector-effect": "non-scaling-stroke" }), bars),
    h("div", { class: "bar faint ends" }, h("span", null, ago), h("span", null, `at most ${most} in a ${a}`), h("span", null, "now"))];
}
