// The server, as the console sees it: one function a kind of call, one kind of error.

export class Refusal extends Error {
  constructor(answer, status) {
    super(answer.error ?? "the server did not say why");
    this.kind = answer.errorKind ?? "internal_error";
    this.hint = answer.hint;
    this.status = status;
    this.path = answer.path;
    this.decidedBy = answer.decidedBy;
    this.details = answer.details ?? {};
    this.requestId = answer.requestId;
  }
}

const place = { root: null, fork: null };

// The link that logs in hands over a key besides the cookie. Cookies are shared by all ports of a
// host; what is kept here is for this origin alone, and a call needs both.
const KEPT = "bailiwick.session";

export function takeKey() {
  const found = /^#session=([A-Za-z0-9_-]+)$/.exec(location.hash);
  if (!found) return;
  localStorage.setItem(KEPT, found[1]);
  history.replaceState(null, "", "/");
}

const key = () => localStorage.getItem(KEPT) ?? "";

export function forgetKey() { localStorage.removeItem(KEPT); }

export function useRoot(root, fork = null) { place.root = root; place.fork = fork; }

export function address(route, query = {}, { rooted = true } = {}) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "" && value !== false) parameters.set(name, String(value));
  }
  if (rooted && place.fork && !query.fork) parameters.set("fork", place.fork);
  const prefix = rooted && place.root ? `/roots/${encodeURIComponent(place.root.kind)}/${encodeURIComponent(place.root.id)}` : "";
  const text = parameters.toString();
  return prefix + route + (text ? `?${text}` : "");
}

async function answered(response, raw) {
  const kind = response.headers.get("content-type") ?? "";
  if (raw && response.ok) return response.arrayBuffer();
  const body = kind.startsWith("application/json") ? await response.json() : null;
  if (!response.ok) throw new Refusal(body ?? { error: `the server answered ${response.status}` }, response.status);
  return body;
}

async function send(url, options, raw = false) {
  let response;
  try {
    const headers = { ...options?.headers, "x-bailiwick-session": key() };
    response = await fetch(url, { credentials: "same-origin", ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal({ errorKind: "unreachable", error: "the server does not answer", hint: "is it still running?" }, 0);
  }
  return answered(response, raw);
}

export const get = (route, query, { rooted = true, signal } = {}) => send(address(route, query, { rooted }), { signal });

// The bytes of an answer, to be read beside the page: one that may be long.
export const bytes = (route, query, { signal } = {}) => send(address(route, query), { signal }, true);

// A question to a person is answered 202 with an approval's id: told as what it is, not as success.
export async function post(route, body, { rooted = true, query } = {}) {
  const answer = await send(address(route, query, { rooted }), {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body ?? {}),
  });
  if (answer?.kind === "approval_pending") {
    throw new Refusal({ errorKind: "approval_pending", error: "a person is asked first", hint: "answer it under Approvals, then try again", details: { approvalId: answer.approvalId } }, 202);
  }
  return answer;
}

// For what cannot send a header: a picture, a download.
export const rawAddress = (path) => address("/file/raw", { path, session: key() });

export const drop = (route, { rooted = true } = {}) => send(address(route, {}, { rooted }), { method: "DELETE" });

// XMLHttpRequest and not fetch: only it tells how much of an upload has gone.
export function upload(path, file, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", address("/file/upload", { path }));
    request.setRequestHeader("content-type", "application/octet-stream");
    request.setRequestHeader("x-bailiwick-session", key());
    request.upload.addEventListener("progress", (event) => { if (event.lengthComputable) onProgress(event.loaded / event.total); });
    request.addEventListener("load", () => {
      let body = {};
      try { body = JSON.parse(request.responseText); } catch { /* told as an answer without words */ }
      if (request.status < 300) resolve(body);
      else reject(new Refusal(body, request.status));
    });
    request.addEventListener("error", () => reject(new Refusal({ errorKind: "unreachable", error: "the upload was cut off" }, 0)));
    request.send(file);
  });
}

// `onNotice(what)` hears that there is a question, a run or a verdict to look at.
export function events(onChange, onState, onNotice) {
  const source = new EventSource(address("/events", { session: key() }), { withCredentials: true });
  const hear = (event) => { try { onChange(JSON.parse(event.data)); } catch { /* a comment or a beat */ } };
  source.addEventListener("change", hear);
  source.addEventListener("message", hear);
  for (const what of ["approval", "run", "review"]) source.addEventListener(what, () => onNotice(what));
  source.addEventListener("open", () => onState(true));
  source.addEventListener("error", () => onState(false));
  return () => source.close();
}
