// How numbers, times and names read.

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"];

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "";
  let amount = bytes, unit = 0;
  while (amount >= 1024 && unit < UNITS.length - 1) { amount /= 1024; unit += 1; }
  const digits = unit === 0 || amount >= 100 ? 0 : 1;
  return `${amount.toFixed(digits)} ${unit === 0 && bytes === 1 ? "byte" : UNITS[unit]}`;
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

export function ago(milliseconds, now = Date.now()) {
  const seconds = Math.round((now - milliseconds) / 1000);
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  if (seconds < 86400 * 14) return count(Math.floor(seconds / 86400), "day") + " ago";
  return new Date(milliseconds).toISOString().slice(0, 10);
}

export function moment(milliseconds) {
  if (!milliseconds) return "";
  const date = new Date(milliseconds);
  const two = (n) => String(n).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

const SPANS = [["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "s", 1]];

export function left(milliseconds, now = Date.now()) {
  const seconds = Math.max(0, Math.round((milliseconds - now) / 1000));
  const [name, size, part, within] = SPANS.find((each) => seconds >= each[1]) ?? [];
  return name ? `${Math.floor(seconds / size)} ${name} ${Math.floor((seconds % size) / within)} ${part}` : `${seconds} s`;
}

// What shows nothing, or turns the writing around it: as `bailiwick` escapes it at a terminal.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]/gu;
const number = (mark) => mark.codePointAt(0).toString(16).padStart(4, "0");

// Text of a file with what cannot be seen made visible: it can make code look like other code, and
// say to a model what no person reads.
export function visible(text) {
  return text.replace(UNSEEN, (mark) => ("\n\t".includes(mark) ? mark : mark === "\r" ? "␍" : `⟨${number(mark)}⟩`));
}

// In a name it would let that pose as another.
export function plain(text) {
  return String(text).replace(UNSEEN, (mark) => `\\u${number(mark)}`);
}

export function nameOf(path) { return path === "." ? "" : path.slice(path.lastIndexOf("/") + 1); }
export function parentOf(path) { const at = path.lastIndexOf("/"); return at < 0 ? "." : path.slice(0, at); }
export function join(directory, name) { return directory === "." ? name : `${directory}/${name}`; }
