// Colours for code, line by line: strings, comments, numbers, words that a language keeps for
// itself. Enough to read by; it is no parser, and whatever it misreads stays the same text.

const C_LIKE = "abstract as async await boolean break byte case catch char class const continue debugger default defer delete do double else enum export extends extern false final finally float fn for from func function go if impl implements import in instanceof int interface let long match mod module move mut namespace new nil null of package private protected pub public readonly ref return self short static struct super switch this throw throws trait true try type typeof undefined union unsafe use using var virtual void where while yield";
const PYTHON = "False None True and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return self try while with yield";
const SHELL = "case do done elif else esac export fi for function if in local return set then until while";
const SQL = "add alter and as asc begin by case check column commit constraint create database default delete desc distinct drop else end exists foreign from full group having if in index inner insert into is join key left like limit not null on or order outer primary references right rollback select set table then transaction union unique update values view when where with";

const LANGUAGES = {
  py: { words: PYTHON, comment: "#", triple: true }, pyi: "py", toml: { words: "true false", comment: "#", triple: true },
  js: { words: C_LIKE, comment: "//", block: true, tick: true }, ts: "js", jsx: "js", tsx: "js", mjs: "js", cjs: "js",
  c: { words: C_LIKE, comment: "//", block: true }, h: "c", cc: "c", cpp: "c", hpp: "c", cs: "c", java: "c", kt: "c", swift: "c", scala: "c", dart: "c", proto: "c", php: "c",
  go: { words: C_LIKE, comment: "//", block: true, tick: true }, rs: "c", css: { words: "", block: true }, scss: "c", less: "c",
  json: { words: "true false null" }, jsonl: "json", yaml: { words: "true false null yes no", comment: "#" }, yml: "yaml", ini: { words: "", comment: "#" }, cfg: "ini", conf: "ini", env: "ini",
  sh: { words: SHELL, comment: "#" }, bash: "sh", zsh: "sh", dockerfile: "sh", makefile: "sh", rb: { words: PYTHON + " begin end module unless do then", comment: "#" },
  sql: { words: SQL + " " + SQL.toUpperCase(), comment: "--", block: true }, lua: { words: PYTHON + " local function end then", comment: "--" },
};

const built = new Map();

function language(name) {
  const extension = name.toLowerCase().includes(".") ? name.toLowerCase().split(".").pop() : name.toLowerCase();
  let rules = LANGUAGES[extension];
  if (typeof rules === "string") rules = LANGUAGES[rules];
  if (!rules) return null;
  if (!built.has(rules)) {
    const escape = (text) => text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
    const parts = [];
    if (rules.comment) parts.push(`(?<c>${escape(rules.comment)}.*)`);
    parts.push(String.raw`(?<s>"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?${rules.tick ? "|`(?:[^`\\\\]|\\\\.)*`?" : ""})`);
    parts.push(String.raw`(?<n>\b(?:0x[\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\b)`);
    parts.push(String.raw`(?<w>[A-Za-z_$][\w$]*)(?<call>\s*\()?`);
    built.set(rules, { pattern: new RegExp(parts.join("|"), "g"), words: new Set(rules.words.split(" ")), rules });
  }
  return built.get(rules);
}

// `lines` to pieces of text, each with a class or none. Remembers what reaches over a line's end.
export function painter(name) {
  const known = language(name);
  let open = null;
  return (line) => {
    if (!known || line.length > 2000) return [[line, null]];
    const pieces = [];
    let at = 0;
    if (open) {
      const end = line.indexOf(open.end);
      if (end < 0) return [[line, open.kind]];
      at = end + open.end.length;
      pieces.push([line.slice(0, at), open.kind]);
      open = null;
    }
    const begins = [];
    if (known.rules.block) begins.push(["/*", "*/", "t-c"]);
    if (known.rules.triple) begins.push(['"""', '"""', "t-s"], ["'''", "'''", "t-s"]);
    const { pattern, words } = known;
    while (at < line.length) {
      pattern.lastIndex = at;
      const found = pattern.exec(line);
      let next = found ? found.index : line.length, begin = null;
      for (const [start, end, kind] of begins) {
        const position = line.indexOf(start, at);
        if (position >= 0 && position <= next) { next = position; begin = [start, end, kind]; }
      }
      if (next > at) pieces.push([line.slice(at, next), null]);
      if (begin) {
        const close = line.indexOf(begin[1], next + begin[0].length);
        if (close < 0) { pieces.push([line.slice(next), begin[2]]); open = { end: begin[1], kind: begin[2] }; return pieces; }
        at = close + begin[1].length;
        pieces.push([line.slice(next, at), begin[2]]);
        continue;
      }
      if (!found) break;
      const { c, s, n, w, call } = found.groups;
      if (c) pieces.push([c, "t-c"]);
      else if (s) pieces.push([s, "t-s"]);
      else if (n) pieces.push([n, "t-n"]);
      else { pieces.push([w, words.has(w) ? "t-k" : call ? "t-f" : null]); if (call) pieces.push([call, null]); }
      at = found.index + found[0].length;
    }
    return pieces.length ? pieces : [["", null]];
  };
}
