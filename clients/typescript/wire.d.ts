// Written by `python -m release.typescript` from what the server says; not by hand.
import type { How } from "./index.js";

export interface AnswerBody {
  answer: "always" | "grant" | "never" | "no" | "once";
}

export interface AppendBody {
  approval?: string | null;
  lockToken?: number | null;
  /** Where, relative to the root. */
  path: string;
  content?: string | null;
  contentBase64?: string | null;
  expectedHash?: string | null;
  /** @deprecated Another name of expectedHash. */
  expectedSha256?: string | null;
  expectedVersion?: string | null;
  parents?: boolean;
  fileMode?: string | number | null;
}

/** As POST /file/append. */
export interface AppendOp {
  op: "append";
  approval?: string | null;
  lockToken?: number | null;
  /** Where, relative to the root. */
  path: string;
  content?: string | null;
  contentBase64?: string | null;
  expectedHash?: string | null;
  /** @deprecated Another name of expectedHash. */
  expectedSha256?: string | null;
  expectedVersion?: string | null;
  parents?: boolean;
  fileMode?: string | number | null;
}

export interface ApplyoverlayBody {
  approval?: string | null;
  publish?: "atomic" | "partial";
  paths?: string[] | null;
  merge?: boolean;
  hunks?: Record<string, number[]> | null;
  seen?: string | null;
}

export interface ApplyworkBody {
  approval?: string | null;
  publish?: "atomic" | "partial";
  paths?: string[] | null;
  merge?: boolean;
  hunks?: Record<string, number[]> | null;
  seen?: string | null;
}

/** Questions: those that wait oldest first, others newest first. */
export interface ApprovalList {
  kind: "approvals";
  approvals: WireApproval[];
  nextCursor: string | null;
}

/** An archive that was made. */
export interface Archived {
  kind: "archive_create";
  path: string;
  format: string;
  files: number;
  directories: number;
  links: number;
  bytes: number;
  sizeBytes: number;
  hash: string;
  version: string;
  created: boolean;
  fileMode: string;
  requestId: string;
}

/** Some records, newest first. */
export interface AuditPage {
  kind: "audit";
  records: WireRecord[];
  scanned: number;
  truncated: boolean;
  nextCursor: string | null;
}

export interface BatchBody {
  approval?: string | null;
  lockToken?: number | null;
  operations: (WriteOp | EditOp | AppendOp | TruncateOp | DirOp | RemoveOp | MoveOp | CopyOp | SymlinkOp | ModeOp | TimesOp)[];
  atomic?: boolean;
}

/** What became of each operation, in order. */
export interface BatchResult {
  kind: "batch";
  atomic: boolean;
  results: Outcome[];
}

/** What this server, and this caller on this root, can do. */
export interface Capabilities {
  kind: "capabilities";
  version: string;
  features: string[];
  limits: Limits;
  subject: string;
  root: string;
  grantId: string;
  access: string[];
  powers: string[];
  trusted: boolean;
  readOnly: boolean;
}

/** A change that has no content of its own. */
export interface Changed {
  kind: "change";
  path: string;
  changed: boolean;
  destination: string | null;
  count: number;
  countTruncated: boolean;
  version: string | null;
  requestId: string;
}

/** How a fork differs, sorted by path. */
export interface Compared {
  kind: "compare";
  fork: string;
  differences: WireDifference[];
  truncated: boolean;
}

export interface CopyBody {
  approval?: string | null;
  lockToken?: number | null;
  /** Where, relative to the root. */
  path: string;
  /** Where it goes, relative to the root. */
  destination?: string | null;
  /** @deprecated Another name of destination. */
  to?: string | null;
  recursive?: boolean;
  /** Another root to copy from: kind:id. */
  fromRoot?: string | null;
  parents?: boolean;
  expectedDestinationHash?: string | null;
  expectedDestinationVersion?: string | null;
}

/** As POST /copy. */
export interface CopyOp {
  op: "copy";
  approval?: string | null;
  lockToken?: number | null;
  /** Where, relative to the root. */
  path: string;
  /** Where it goes, relative to the root. */
  destination?: string | null;
  /** @deprecated Another name of destination. */
  to?: string | null;
  recursive?: boolean;
  /** Another root to copy from: kind:id. */
  fromRoot?: string | null;
  parents?: boolean;
  expectedDestinationHash?: string | null;
  expectedDestinationVersion?: string | null;
}

export interface CreateBody {
  approval?: string | null;
  lockToken?: number | null;
  paths: string[];
  /** Where it goes, relative to the root. */
  destination?: string | null;
  /** @deprecated Another name of destination. */
  to?: string | null;
  format?: string | null;
  includeIgnored?: boolean;
  mode?: "create" | "overwrite" | "replace";
  fileMode?: string | number | null;
}

export interface DelegateBody {
  subject: string;
  access?: ("archive" | "delete" | "execute" | "list" | "metadata" | "move" | "read" | "watch" | "write")[] | null;
  path?: string;
  rebase?: boolean;
  allowed?: string[];
  denied?: string[];
  expiresIn?: number | null;
  reason?: string;
}

/** A narrower grant for another subject, and the token by which that subject uses it. The token is shown this once. */
export interface Delegated {
  kind: "delegated";
  grant: WireGrant;
  token: string;
}

/** Something with a name that is gone. */
export interface Deleted {
  kind: "deleted";
  name: string;
}

/** A unified diff, or a summary where that is too large. */
export interface DiffResult {
  kind: "diff";
  a: string;
  b: string;
  equal: boolean;
  text: string;
  addedLines: number;
  removedLines: number;
  truncated: boolean;
  binary: boolean;
  requestId: string;
}

export interface DirBody {
  approval?: string | null;
  lockToken?: number | null;
  /** Where, relative to the root. */
  path: string;
  parents?: boolean;
  fileMode?: string | number | null;
}

/** As POST /dir. */
export interface DirOp {
  op: "dir";
  approval?: string | null;
  lockToken?: number | null;
  /** Where, relative to the root. */
  path: string;
  parents?: boolean;
  fileMode?: string | number | null;
}

export interface DiscardoverlayBody {
  approval?: string | null;
  paths?: string[] | null;
  hunks?: Record<string, number[]> | null;
  seen?: string | null;
}

export interface DiscardsessionBody {
  approval?: string | null;
  paths?: string[] | null;
}

export interface DiscardworkBody {
  approval?: string | null;
  paths?: string[] | null;
  hunks?: Record<string, number[]> | null;
  seen?: string | null;
}

export interface EditBody {
  approval?: string | null;
  lockToken?: number | null;
  /** Where, relative to the root. */
  path: string;
  oldText?: string | null;
  newText?: string | null;
  replaceAll?: boolean;
  edits?: WireEdit[] | null;
  expectedHash?: string | null;
  /** @deprecated Another name of expectedHash. */
  expectedSha256?: string | null;
  expectedVersion?: string | null;
  dryRun?: boolean;
}

/** As POST /file/edit. */
export interface EditOp {
  op: "edit";
  approval?: string | null;
  lockToken?: number | null;
  /** Where, relative to the root. */
  path: string;
  oldText?: string | null;
  newText?: string | null;
  replaceAll?: boolean;
  edits?: WireEdit[] | null;
  expectedHash?: string | null;
  /** @deprecated Another name of expectedHash. */
  expectedSha256?: string | null;
  expectedVersion?: string | null;
  dryRun?: boolean;
}

/** What went wrong. */
export interface ErrorBody {
  errorKind: string;
  error: string;
  status: number;
  requestId: string;
  category: string;
  retryable: boolean;
  hint?: string | null;
  path?: string | null;
  decidedBy?: string | null;
  details?: Record<string, unknown> | null;
}

/** One change. */
export interface Event {
  kind: string;
  path: string;
  type: string;
  subject: string;
  requestId: string;
  version: string | null;
  origin: string | null;
  subtree: boolean;
  timeMs: number;
  cursor: string;
  beneath: string[];
  beneathTruncated: boolean;
}

export interface ExecBody {
  approval?: string | null;
  argv?: string[] | null;
  shell?: string | null;
  env?: Record<string, string> | null;
  /** What it can read. */
  stdin?: string | null;
  /** The same, of any bytes. */
  stdinBase64?: string | null;
  /** Whether more will come: POST /exec/{id}/input. */
  stdinPipe?: boolean;
  timeout?: number | null;
  limits?: WireCommandLimits | null;
  network?: "host" | "loopback" | "none";
  /** Where, relative to the root. */
  cwd?: string;
  publish?: "atomic" | "manual" | "partial";
  roots?: string[];
  /** Answer with the first line alone. */
  detach?: boolean;
  /** Whether it ends when whoever is told of it goes away. */
  endWithClient?: boolean;
}

/** One line about a command: the command (`exec`, first), a piece of its output (`seq`, `stream`, `data`), its `result` (last), or the `error` that ended the telling. `data` is text, or base64 where `encoding` says so: what is no UTF-8 by itself. */
export interface ExecLine {
  exec?: WireExecution | null;
  seq?: number | null;
  stream?: string | null;
  data?: string | null;
  encoding?: "base64" | null;
  result?: ExecResult | null;
  error?: Record<string, unknown> | null;
}

/** What became of a command, and of what it changed. */
export interface ExecResult {
  exitCode: number | null;
  signal: number | null;
  timedOut: boolean;
  durationMs: number;
  sandbox: string;
  changes: WireWorkChange[];
  withheld: WireWithheld[];
  conflicts: WireWorkConflict[];
  truncated: boolean;
  workId: string | null;
  requestId: string;
}

/** A command that has ended for good, and is forgotten. Without a `result` where it failed. */
export interface ExecutionClosed {
  kind: "exec_closed";
  id: string;
  result: ExecResult | null;
}

/** Commands, oldest first. */
export interface ExecutionList {
  kind: "execs";
  executions: WireExecution[];
}

export interface ExtractBody {
  approval?: string | null;
  lockToken?: number | null;
  /** Where, relative to the root. */
  path: string;
  /** Where it goes, relative to the root. */
  destination?: string | null;
  /** @deprecated Another name of destination. */
  to?: string | null;
  overwrite?: boolean;
}

/** What came out of an archive. */
export interface Extracted {
  kind: "archive_extract";
  path: string;
  destination: string;
  files: number;
  directories: number;
  links: number;
  bytes: number;
  skipped: string[];
  requestId: string;
}

/** A file that something was added to. */
export interface FileAppend {
  kind: "file_append";
  path: string;
  mode: string;
  created: boolean;
  sizeBytes: number;
  hash: string | null;
  version: string;
  fileMode: string;
  encoding: string | null;
  bom: boolean | null;
  lineEnding: string | null;
  matchedIgnore: string | null;
  requestId: string;
}

/** Bytes of a file, as base64. */
export interface FileBytes {
  kind: "file_bytes";
  path: string;
  contentBase64: string;
  offset: number;
  sizeBytes: number;
  returnedBytes: number;
  truncated: boolean;
  hash: string | null;
  version: string;
  requestId: string;
}

/** What an edit changed, or would change. */
export interface FileEdit {
  kind: "file_edit";
  path: string;
  replacements: number;
  diff: string;
  diffTruncated: boolean;
  firstChangedLine: number | null;
  hashBefore: string;
  hash: string;
  sizeBytes: number;
  version: string;
  dryRun: boolean;
  encoding: string | null;
  bom: boolean | null;
  lineEnding: string | null;
  matchedIgnore: string | null;
  requestId: string;
}

/** Text of a file, or a window of its lines. */
export interface FileRead {
  kind: "file";
  path: string;
  content: string;
  encoding: string;
  bom: boolean;
  lineEnding: string;
  sizeBytes: number;
  returnedBytes: number;
  truncated: boolean;
  hash: string | null;
  version: string;
  matchedIgnore: string | null;
  firstLine: number | null;
  originalLineCount: number | null;
  totalLines: number | null;
  endsWithNewline: boolean | null;
  nextCursor: string | null;
  hasMore: boolean;
  partialLine: boolean;
  requestId: string;
}

/** A file that was cut or extended. */
export interface FileTruncate {
  kind: "file_truncate";
  path: string;
  mode: string;
  created: boolean;
  sizeBytes: number;
  hash: string | null;
  version: string;
  fileMode: string;
  encoding: string | null;
  bom: boolean | null;
  lineEnding: string | null;
  matchedIgnore: string | null;
  requestId: string;
}

/** A file that was uploaded, under the name it got. */
export interface FileUpload {
  kind: "file_upload";
  path: string;
  mode: string;
  created: boolean;
  sizeBytes: number;
  hash: string | null;
  version: string;
  fileMode: string;
  encoding: string | null;
  bom: boolean | null;
  lineEnding: string | null;
  matchedIgnore: string | null;
  requestId: string;
}

/** A file that was written. */
export interface FileWrite {
  kind: "file_write";
  path: string;
  mode: string;
  created: boolean;
  sizeBytes: number;
  hash: string | null;
  version: string;
  fileMode: string;
  encoding: string | null;
  bom: boolean | null;
  lineEnding: string | null;
  matchedIgnore: string | null;
  requestId: string;
}

/** All files beneath a directory, flat. */
export interface FilesResult {
  kind: "files";
  path: string;
  entries: WireEntry[];
  truncated: boolean;
  omitted: number;
  reason: string | null;
  unreadable: string[];
  nextCursor: string | null;
  requestId: string;
}

/** The entries that fit, sorted by path. */
export interface FindResult {
  kind: "find";
  path: string;
  entries: WireEntry[];
  truncated: boolean;
  omitted: number;
  reason: string | null;
  unreadable: string[];
  nextCursor: string | null;
  requestId: string;
}

export interface ForkBody {
  name: string;
  version?: string | null;
  approval?: string | null;
}

/** All forks. */
export interface ForkList {
  kind: "forks";
  forks: WireFork[];
}

/** A fork that was made: act in it with `fork=NAME` in any query. */
export interface ForkMade {
  kind: "fork";
  name: string;
}

/** The paths that match, sorted. */
export interface GlobResult {
  kind: "glob";
  pattern: string;
  cwd: string;
  matches: string[];
  count: number;
  truncated: boolean;
  omitted: number;
  reason: string | null;
  unreadable: string[];
  nextCursor: string | null;
  entries: WireEntry[] | null;
  durationMs: number;
  requestId: string;
}

export interface GrantBody {
  subject: string;
  root: string;
  access: ("archive" | "delete" | "execute" | "list" | "metadata" | "move" | "read" | "watch" | "write")[];
  path?: string;
  allowed?: string[];
  denied?: string[];
  expiresIn?: number | null;
  reason?: string;
}

/** Grants that hold now, oldest first. */
export interface GrantList {
  kind: "grants";
  grants: WireGrant[];
  truncated: boolean;
}

/** The lines that match, sorted by path and line, and all that was not looked into. */
export interface GrepResult {
  kind: "grep";
  pattern: string;
  path: string;
  matches: WireMatch[];
  skippedPaths: string[];
  skippedBinaryPaths: string[];
  unreadable: string[];
  withheld: string[];
  truncated: boolean;
  filesSearched: number;
  skipsReported: boolean;
  reason: string | null;
  durationMs: number;
  requestId: string;
}

/** Whether the server runs. */
export interface Health {
  kind: "health";
  ok: boolean;
}

/** Versions, newest first. */
export interface HistoryResult {
  kind: "history";
  path: string;
  versions: WireVersion[];
  nextCursor: string | null;
  truncated: boolean;
}

/** Bytes that a command was handed. */
export interface InputTaken {
  kind: "exec_input";
  id: string;
  takenBytes: number;
}

/** How much of anything. */
export interface Limits {
  textReadBytes: number;
  textWriteBytes: number;
  maxFileBytes: number;
  jsonBodyBytes: number;
  uploadBytes: number;
  lines: number;
  listPage: number;
  globMatches: number;
  grepMatches: number;
}

/** The text of a link. */
export interface LinkResult {
  kind: "link";
  path: string;
  target: string;
}

/** One page of a directory, sorted by name. */
export interface Listing {
  kind: "list";
  path: string;
  entries: WireEntry[];
  truncated: boolean;
  nextCursor: string | null;
  requestId: string;
}

/** A lock that is held: give its `token` as `lockToken` with every change under it. */
export interface Lock {
  kind: "lock";
  id: string;
  path: string;
  token: number;
  expiresAtMs: number;
}

export interface LockBody {
  /** Where, relative to the root. */
  path: string;
  /** Seconds, up to ten minutes. */
  ttl?: number;
  approval?: string | null;
}

export interface MergeBody {
  approval?: string | null;
  lockToken?: number | null;
  name: string;
  preview?: boolean;
}

/** What a merge took over, or the conflicts for which it took over nothing. */
export interface Merged {
  kind: "merge";
  version: string | null;
  changed: string[];
  conflicts: WireConflict[];
  preview: boolean;
  requestId: string;
}

export interface ModeBody {
  approval?: string | null;
  lockToken?: number | null;
  expectedHash?: string | null;
  /** @deprecated Another name of expectedHash. */
  expectedSha256?: string | null;
  expectedVersion?: string | null;
  /** Where, relative to the root. */
  path: string;
  /** Permission bits: octal text ("0644"), or a number. */
  fileMode: string | number;
}

/** As POST /mode. */
export interface ModeOp {
  op: "mode";
  approval?: string | null;
  lockToken?: number | null;
  expectedHash?: string | null;
  /** @deprecated Another name of expectedHash. */
  expectedSha256?: string | null;
  expectedVersion?: string | null;
  /** Where, relative to the root. */
  path: string;
  /** Permission bits: octal text ("0644"), or a number. */
  fileMode: string | number;
}

export interface MoveBody {
  approval?: string | null;
  lockToken?: number | null;
  expectedHash?: string | null;
  /** @deprecated Another name of expectedHash. */
  expectedSha256?: string | null;
  expectedVersion?: string | null;
  /** Where, relative to the root. */
  path: string;
  /** Where it goes, relative to the root. */
  destination?: string | null;
  /** @deprecated Another name of destination. */
  to?: string | null;
  replace?: boolean;
  expectedDestinationHash?: string | null;
  expectedDestinationVersion?: string | null;
}

/** As POST /move. */
export interface MoveOp {
  op: "move";
  approval?: string | null;
  lockToken?: number | null;
  expectedHash?: string | null;
  /** @deprecated Another name of expectedHash. */
  expectedSha256?: string | null;
  expectedVersion?: string | null;
  /** Where, relative to the root. */
  path: string;
  /** Where it goes, relative to the root. */
  destination?: string | null;
  /** @deprecated Another name of destination. */
  to?: string | null;
  replace?: boolean;
  expectedDestinationHash?: string | null;
  expectedDestinationVersion?: string | null;
}

export interface OpensessionBody {
}

/** What became of one operation: its result as its own route gives it, or its error. */
export interface Outcome {
  ok: boolean;
  result: Record<string, unknown> | null;
  error: Record<string, unknown> | null;
}

/** What was given up of an overlay. */
export interface OverlayDiscarded {
  kind: "overlay_discarded";
  discarded: string[];
}

/** A person is being asked. The same request, with `approval`, goes on once they said yes. */
export interface PendingReply {
  approvalId: string;
  expiresAt: string;
  requestId: string;
  kind?: string;
}

export interface PublishsessionBody {
  approval?: string | null;
  publish?: "atomic" | "partial";
  paths?: string[] | null;
  merge?: boolean;
}

/** Whether the server can record what is done and open files, and what its roots are kept in answers, so that changes are possible. */
export interface Ready {
  kind: "ready";
  ok: boolean;
}

/** A lock that was given back; `held` says whether it had not run out already. */
export interface Released {
  kind: "lock_released";
  id: string;
  held: boolean;
}

/** Those of a grant first, then those that hold always; the newest first in each. */
export interface RememberedRuleList {
  kind: "remembered_rules";
  rules: WireRememberedRule[];
}

export interface RemoveBody {
  approval?: string | null;
  lockToken?: number | null;
  expectedHash?: string | null;
  /** @deprecated Another name of expectedHash. */
  expectedSha256?: string | null;
  expectedVersion?: string | null;
  /** Where, relative to the root. */
  path: string;
  recursive?: boolean;
  missingOk?: boolean;
}

/** As POST /remove. */
export interface RemoveOp {
  op: "remove";
  approval?: string | null;
  lockToken?: number | null;
  expectedHash?: string | null;
  /** @deprecated Another name of expectedHash. */
  expectedSha256?: string | null;
  expectedVersion?: string | null;
  /** Where, relative to the root. */
  path: string;
  recursive?: boolean;
  missingOk?: boolean;
}

export interface RenewBody {
  /** Seconds, up to ten minutes. */
  ttl?: number;
}

export interface ResizeBody {
  rows: number;
  columns: number;
}

export interface RestoreBody {
  approval?: string | null;
  lockToken?: number | null;
  expectedHash?: string | null;
  /** @deprecated Another name of expectedHash. */
  expectedSha256?: string | null;
  expectedVersion?: string | null;
  /** Where, relative to the root. */
  path: string;
  version: string;
}

/** What a restore changed. */
export interface Restored {
  kind: "restore";
  path: string;
  version: string | null;
  changed: number;
  requestId: string;
}

/** Hunks and runs by their ids, or beginnings of them, and as `ID@VERSION` as they were shown with that version of the file; a file of a run as `RUN:PATH`. What is rejected is taken back, and its agent is told, with the `note`. While that is in the middle of a call or a command nothing is taken back, unless a person does `insist`. With `work` or `ofFork` it is what is not in the tree yet: hunks of the working copy or the fork, all of it by its name, or a file as `NAME:PATH`. What is accepted is applied or merged, what is rejected is given up there. One file of it that was changed in the tree, too, is settled by the `text` that it becomes, or with `over` by what it is apart. A hunk that both mean, such as one of a run that is accepted, is refused before anything is done. What is accepted comes first. Where a rejection is refused then, the error tells in its `details` what was `accepted` and `applied`. */
export interface ReviewBody {
  accept?: string[];
  reject?: string[];
  work?: string | null;
  ofFork?: string | null;
  text?: string | null;
  over?: boolean;
  note?: string | null;
  preview?: boolean;
  insist?: boolean;
  approval?: string | null;
}

/** What came of a verdict, and how many hunks are left. */
export interface ReviewSaid {
  kind: "review_result";
  accepted: string[];
  rejected: string[];
  applied: string[];
  undone: string[];
  conflicts: WireConflict[];
  left: number;
  preview: boolean;
  requestId: string;
}

/** What agents did that nobody has agreed to, by path. */
export interface Reviewing {
  kind: "review";
  files: WireReviewFile[];
  left: number;
  version: string | null;
  nextCursor: string | null;
  truncated: boolean;
  requestId: string;
}

export interface RevokeBody {
  reason?: string;
}

/** How many grants have ended: the one that was named, and all that came from it. */
export interface Revoked {
  kind: "revoked";
  id: string;
  ended: number;
}

/** The roots that the caller may ask for. */
export interface RootList {
  kind: "roots";
  roots: WireRoot[];
}

/** An answer that was taken back: from now on it is asked again. */
export interface RuleForgotten {
  kind: "rule_forgotten";
  id: string;
}

/** What a run changed in all, by path, in hunks. */
export interface RunChanged {
  kind: "run_changes";
  run: string;
  changes: WireRunChange[];
  truncated: boolean;
  nextCursor: string | null;
}

/** Runs, what was seen last first; with `nextCursor` those that were seen before. */
export interface RunList {
  kind: "runs";
  runs: WireRun[];
  truncated: boolean;
  nextCursor: string | null;
}

/** A step of a run, by the name that the subject gave it. */
export interface RunStep {
  name: string;
  begunMs: number;
  calls: number;
}

/** All of the run, or some paths, some hunks by their ids, one step. */
export interface RunUndoBody {
  paths?: string[];
  hunks?: string[] | null;
  step?: string | null;
  preview?: boolean;
  approval?: string | null;
}

export interface SessionBody {
  /** Where, relative to the root. */
  cwd?: string;
  env?: Record<string, string> | null;
  roots?: string[];
}

/** A session whose processes have ended. What was not published is kept. */
export interface SessionClosed {
  kind: "session_closed";
  id: string;
}

/** The sessions that are open, oldest first. */
export interface SessionList {
  kind: "sessions";
  sessions: WireSession[];
}

export interface SessionexecBody {
  approval?: string | null;
  argv?: string[] | null;
  shell?: string | null;
  env?: Record<string, string> | null;
  /** What it can read. */
  stdin?: string | null;
  /** The same, of any bytes. */
  stdinBase64?: string | null;
  /** Whether more will come: POST /exec/{id}/input. */
  stdinPipe?: boolean;
  timeout?: number | null;
  limits?: WireCommandLimits | null;
  network?: "host" | "loopback" | "none";
  cwd?: string | null;
  terminal?: WindowSize | null;
  /** Answer with the first line alone. */
  detach?: boolean;
  /** Whether it ends when whoever is told of it goes away. */
  endWithClient?: boolean;
}

export interface SetsessionBody {
  cwd?: string | null;
  env?: Record<string, string> | null;
}

export interface SignalBody {
  signal: "SIGABRT" | "SIGALRM" | "SIGCONT" | "SIGHUP" | "SIGINT" | "SIGKILL" | "SIGQUIT" | "SIGSTOP" | "SIGTERM" | "SIGTSTP" | "SIGTTIN" | "SIGTTOU" | "SIGUSR1" | "SIGUSR2" | "SIGWINCH";
}

export interface SnapshotBody {
  name: string;
  approval?: string | null;
}

/** All snapshots. */
export interface SnapshotList {
  kind: "snapshots";
  snapshots: WireSnapshot[];
}

/** A snapshot that was made. */
export interface SnapshotMade {
  kind: "snapshot";
  snapshot: WireSnapshot;
}

/** What is known of one object. */
export interface StatResult {
  kind: "stat";
  path: string;
  name: string;
  type: string;
  sizeBytes: number;
  modifiedMs: number;
  modifiedNs: number;
  createdMs: number | null;
  createdNs: number | null;
  /** @deprecated Another name of fileMode, as a number. */
  mode: number;
  fileMode: string;
  version: string;
  links: number;
  target: string | null;
  mime: string | null;
  readOnly: boolean;
}

export interface SymlinkBody {
  approval?: string | null;
  lockToken?: number | null;
  /** Where, relative to the root. */
  path: string;
  target: string;
}

/** As POST /symlink. */
export interface SymlinkOp {
  op: "symlink";
  approval?: string | null;
  lockToken?: number | null;
  /** Where, relative to the root. */
  path: string;
  target: string;
}

export interface TempBody {
  seconds?: number | null;
}

/** A private root that is gone. */
export interface TempClosed {
  kind: "temp_closed";
  id: string;
}

/** A private root, to be used as `/roots/temp/{id}/…` by whoever made it. */
export interface TempRoot {
  kind: "temp";
  root: string;
  id: string;
  expiresAtMs: number | null;
}

export interface TimesBody {
  approval?: string | null;
  lockToken?: number | null;
  expectedHash?: string | null;
  /** @deprecated Another name of expectedHash. */
  expectedSha256?: string | null;
  expectedVersion?: string | null;
  /** Where, relative to the root. */
  path: string;
  modifiedNs: number;
  accessedNs?: number | null;
}

/** As POST /times. */
export interface TimesOp {
  op: "times";
  approval?: string | null;
  lockToken?: number | null;
  expectedHash?: string | null;
  /** @deprecated Another name of expectedHash. */
  expectedSha256?: string | null;
  expectedVersion?: string | null;
  /** Where, relative to the root. */
  path: string;
  modifiedNs: number;
  accessedNs?: number | null;
}

export interface TokenBody {
  name: string;
  subject?: string | null;
  root?: string | null;
  access?: ("archive" | "delete" | "execute" | "list" | "metadata" | "move" | "read" | "watch" | "write")[];
  path?: string;
  expiresIn?: number | null;
}

/** A token that holds no more. */
export interface TokenEnded {
  kind: "tokenEnded";
  name: string;
}

/** Tokens that hold now, by name. */
export interface TokenList {
  kind: "tokens";
  tokens: WireToken[];
  truncated: boolean;
}

/** A token for an agent. The secret is shown this once. */
export interface TokenMade {
  kind: "token";
  name: string;
  subject: string;
  token: string;
  root: string | null;
  access: string[];
}

export interface TruncateBody {
  approval?: string | null;
  lockToken?: number | null;
  expectedHash?: string | null;
  /** @deprecated Another name of expectedHash. */
  expectedSha256?: string | null;
  expectedVersion?: string | null;
  /** Where, relative to the root. */
  path: string;
  size?: number;
}

/** As POST /file/truncate. */
export interface TruncateOp {
  op: "truncate";
  approval?: string | null;
  lockToken?: number | null;
  expectedHash?: string | null;
  /** @deprecated Another name of expectedHash. */
  expectedSha256?: string | null;
  expectedVersion?: string | null;
  /** Where, relative to the root. */
  path: string;
  size?: number;
}

export interface TrustBody {
  trusted: boolean;
}

/** Whether a root may be changed. */
export interface Trusted {
  kind: "trust";
  root: string;
  trusted: boolean;
}

export interface UndoBody {
  approval?: string | null;
  lockToken?: number | null;
  requestId?: string | null;
  subject?: string | null;
  version?: string | null;
  through?: string | null;
  sinceNs?: number | null;
  preview?: boolean;
}

/** What an undo put back, and what it left. */
export interface Undone {
  kind: "undo";
  version: string | null;
  undone: string[];
  conflicts: WireConflict[];
  preview: boolean;
  requestId: string;
}

/** Whether the ledger is as it was written. */
export interface Verified {
  kind: "audit_verify";
  ok: boolean;
  records: number;
  movedOut: number;
  firstBadSeq: number | null;
  firstBadWhy: string | null;
  head: string;
  tailProved: boolean;
  words: string;
}

/** Of a terminal, in characters. */
export interface WindowSize {
  rows?: number;
  columns?: number;
}

/** A question, and what became of it. */
export interface WireApproval {
  kind: "approval";
  id: string;
  state: string;
  subject: string;
  root: string;
  operation: string;
  verb: string;
  target: string;
  destination: string | null;
  arguments: string;
  paths: string[];
  pathsTotal: number;
  prompt: string;
  decidedBy: string[];
  default: string;
  reason: string;
  grantId: string;
  requestId: string;
  front: string;
  alwaysFor: string;
  diff: string | null;
  diffTruncated: boolean;
  hash: string | null;
  hashBefore: string | null;
  sizeBytes: number | null;
  askedMs: number;
  expiresMs: number;
  answer: string | null;
  answeredBy: string | null;
  answeredMs: number | null;
}

/** What a command may use: less than the server lets it, where that is. */
export interface WireCommandLimits {
  secondsMax?: number;
  cpuSecondsMax?: number;
  memoryBytesMax?: number;
  addressSpaceBytesMax?: number;
  processesMax?: number;
  fileBytesMax?: number;
  descriptorsMax?: number;
  scratchBytesMax?: number;
  outputMemoryBytesMax?: number;
  outputBytesMax?: number;
}

/** A place that was left as it is, and why. */
export interface WireConflict {
  path: string;
  reason: string;
}

/** One thing that is not the same in two branches. */
export interface WireDifference {
  kind: string;
  path: string;
  type: string;
  origin: string | null;
  hashBefore: string | null;
  hash: string | null;
}

/** One replacement. */
export interface WireEdit {
  oldText: string;
  newText: string;
  replaceAll?: boolean;
}

/** One entry of a listing. */
export interface WireEntry {
  name: string;
  path: string;
  type: string;
  /** @deprecated Another name of type. */
  kind: string;
  ignored: boolean;
  sizeBytes: number;
  modifiedMs: number;
  modifiedNs: number;
  addressable: boolean;
  readOnly: boolean;
}

/** A command that a server runs, or has run: `command` are its words as a shell would quote them, `session` the id of its session where it has one. */
export interface WireExecution {
  kind: "exec";
  id: string;
  requestId: string;
  state: "ended" | "running";
  command: string;
  session: string | null;
  subject: string;
  root: string;
  beganMs: number;
}

/** A branch, and the version of its parent that it began with. */
export interface WireFork {
  name: string;
  parent: string;
  version: string;
  createdMs: number;
}

/** A grant, standing or handed out. */
export interface WireGrant {
  kind: "grant";
  id: string;
  holds: boolean;
  standing: boolean;
  configured: boolean;
  subject: string;
  root: string;
  access: string[];
  path: string;
  allowed: string[];
  denied: string[];
  reason: string;
  source: string;
  parent: string | null;
  createdMs: number;
  expiresMs: number | null;
  endedMs: number | null;
}

/** Some lines that were changed at one place. */
export interface WireHunk {
  id: string;
  header: string;
  lines: string[];
  added: number;
  removed: number;
  state: string;
  reviewed: string | null;
}

/** One matching line. */
export interface WireMatch {
  path: string;
  line: number;
  column: number;
  text: string;
  before: string[];
  after: string[];
  lineTruncated: boolean;
  undecodable: boolean;
}

/** Lines that somebody else changed meanwhile. */
export interface WireOthersHunk {
  subject: string;
  header: string;
  lines: string[];
}

/** One record. */
export interface WireRecord {
  seq: number;
  timeMs: number;
  requestId: string;
  subject: string;
  grantId: string | null;
  root: string | null;
  operation: string;
  verb: string;
  path: string | null;
  destination: string | null;
  outcome: string;
  errorKind: string | null;
  policySource: string | null;
  hooks: string[];
  reason: string;
  bytes: number | null;
  hashBefore: string | null;
  hashAfter: string | null;
  durationNs: number;
  front: string;
  approvalId: string | null;
  details: Record<string, string>;
}

/** What was answered for longer than once. */
export interface WireRememberedRule {
  kind: "remembered_rule";
  id: string;
  subject: string;
  root: string;
  grantId: string | null;
  operation: string;
  access: string[];
  paths: string[];
  destination: string | null;
  command: string | null;
  branch: string;
  effect: string;
  reason: string;
  approvalId: string;
  by: string;
  createdMs: number;
}

/** What is left to look at of one path. */
export interface WireReviewFile {
  path: string;
  kind: string;
  type: string;
  version: string;
  against: string | null;
  origin: string | null;
  carried: string | null;
  added: number;
  removed: number;
  hunks: WireReviewHunk[];
  sides: WireReviewSides[];
  hunkCount: number;
  replaces: boolean;
}

/** Some lines that nobody has agreed to yet. */
export interface WireReviewHunk {
  id: string;
  run: string;
  subject: string;
  header: string;
  lines: string[];
  added: number;
  removed: number;
  title: string | null;
  runs: string[];
}

/** Some lines of a file that was changed on both sides. */
export interface WireReviewSides {
  text: string | null;
  tree: string;
  apart: string;
  base: string | null;
}

/** A root, as callers know it: never where it lies on the host. */
export interface WireRoot {
  name: string;
  kind: string;
  id: string;
  displayName: string | null;
  trusted: boolean;
  default: boolean;
  labels: Record<string, string>;
  names: string;
}

/** What one subject did in one session. */
export interface WireRun {
  kind: "run";
  id: string;
  title: string | null;
  subject: string;
  front: string;
  root: string;
  begunMs: number;
  seenMs: number;
  active: boolean;
  calls: number;
  commands: number;
  refusals: number;
  questions: number;
  approved: number;
  steps: RunStep[];
  created: number | null;
  changed: number | null;
  moved: number | null;
  removed: number | null;
  added: number | null;
  removedLines: number | null;
  hunks: number | null;
  reviewed: number | null;
  version: string | null;
}

/** What became of one path by a run. */
export interface WireRunChange {
  path: string;
  kind: string;
  type: string;
  version: string;
  origin: string | null;
  added: number;
  removed: number;
  hunks: WireHunk[];
  others: WireOthersHunk[];
  hunkCount: number;
  reviewedCount: number;
  replaces: boolean;
}

/** A session that is open: where its commands are run, with which variables, which of them are under way here, and the words of those that were lost with an earlier process. */
export interface WireSession {
  kind: "session";
  id: string;
  cwd: string;
  env: Record<string, string>;
  lost: string[];
  running: string[];
  subject: string;
  root: string;
}

/** A version with a name. */
export interface WireSnapshot {
  name: string;
  branch: string;
  version: string;
  createdMs: number;
}

/** A token, and who its bearer is. Never the secret. */
export interface WireToken {
  name: string;
  subject: string;
  grantId: string | null;
  createdMs: number;
  expiresMs: number | null;
}

/** One version of what stands, or stood, at a place. `kind` is what happened. */
export interface WireVersion {
  version: string;
  kind: string;
  path: string;
  type: string;
  sizeBytes: number;
  hash: string | null;
  timeMs: number | null;
  verb: string | null;
  subject: string;
  mode: number | null;
  requestId: string;
}

/** What is not brought back, and why. */
export interface WireWithheld {
  path: string;
  errorKind: string;
  reason: string;
  decidedBy: string | null;
}

/** A working copy that holds what is not in the tree. */
export interface WireWork {
  id: string;
  root: string;
  subject: string;
  beganMs: number;
  command: string[];
  via: string[];
  requestId: string;
}

/** One path that was changed apart. */
export interface WireWorkChange {
  path: string;
  kind: string;
  type: string;
  origin: string | null;
  modeBefore: number | null;
  mode: number | null;
}

/** What others changed meanwhile: it stays. */
export interface WireWorkConflict {
  path: string;
  errorKind: string;
  reason: string;
}

/** What a working copy would do to the tree. */
export interface WorkChanges {
  kind: "work";
  changes: WireWorkChange[];
  withheld: WireWithheld[];
  conflicts: WireWorkConflict[];
  version: string | null;
}

/** From the tree to a working copy. */
export interface WorkDiff {
  kind: "work_diff";
  text: string;
  truncated: boolean;
  added: number;
  removed: number;
}

/** What was given up. */
export interface WorkDiscarded {
  kind: "work_discarded";
  id: string;
  discarded: string[];
}

/** Working copies, oldest first. */
export interface WorkList {
  kind: "work_list";
  work: WireWork[];
}

/** What was brought back. */
export interface WorkPublished {
  kind: "work_published";
  changes: WireWorkChange[];
  withheld: WireWithheld[];
  conflicts: WireWorkConflict[];
  version: string | null;
  requestId: string;
}

export interface WriteBody {
  approval?: string | null;
  lockToken?: number | null;
  /** Where, relative to the root. */
  path: string;
  content: string;
  mode?: "create" | "overwrite" | "replace";
  expectedHash?: string | null;
  /** @deprecated Another name of expectedHash. */
  expectedSha256?: string | null;
  expectedVersion?: string | null;
  encoding?: string | null;
  bom?: boolean | null;
  lineEnding?: "crlf" | "lf" | "mixed" | "none" | null;
  parents?: boolean;
  fileMode?: string | number | null;
}

/** As POST /file/write. */
export interface WriteOp {
  op: "write";
  approval?: string | null;
  lockToken?: number | null;
  /** Where, relative to the root. */
  path: string;
  content: string;
  mode?: "create" | "overwrite" | "replace";
  expectedHash?: string | null;
  /** @deprecated Another name of expectedHash. */
  expectedSha256?: string | null;
  expectedVersion?: string | null;
  encoding?: string | null;
  bom?: boolean | null;
  lineEnding?: "crlf" | "lf" | "mixed" | "none" | null;
  parents?: boolean;
  fileMode?: string | number | null;
}

/** A question was put, answered, or its time is up. */
export interface ApprovalEvent {
  kind: string;
  id: string;
  state: string;
  subject: string;
  root: string;
  operation: string;
  verb: string;
  target: string;
  destination: string | null;
  arguments: string;
  paths: string[];
  pathsTotal: number;
  prompt: string;
  reason: string;
  front: string;
  askedMs: number;
  expiresMs: number;
  answer: string | null;
  answeredBy: string | null;
  answeredMs: number | null;
}

/** A person has accepted or rejected what an agent did. */
export interface ReviewEvent {
  kind: string;
  root: string;
  subject: string;
  by: string;
  run: string | null;
  path: string | null;
  hunks: string[];
  lines: string;
  note: string;
}

/** A run has begun, was heard of again, or has ended. */
export interface RunEvent {
  kind: string;
  id: string;
  title: string | null;
  subject: string;
  front: string;
  root: string;
  begunMs: number;
  seenMs: number;
  calls: number;
}

/** What the stream of events tells; `event` says what it is. */
export type Told =
  | ({ event: "change" } & Event)
  | ({ event: "approval" } & ApprovalEvent)
  | ({ event: "run" } & RunEvent)
  | ({ event: "review" } & ReviewEvent);

/** Every operation of a server, by its name in openapi.json. */
export interface Operations {
  /** Read the text of a file, or a window of its lines. */
  readFile(given: {
    /** Where, relative to the root. */
    path: string;
    /** The first line, from 1. */
    line?: number;
    /** How many at most, up to 2,000. */
    limit?: number;
    /** The last so many lines instead. */
    tail?: number;
    /** How much at most; a longer file is cut, with a cursor. */
    maxBytes?: number;
    /** Goes on where an earlier answer ended. */
    cursor?: string;
    /** The encoding, where it cannot be told. */
    encoding?: string;
    /** A version, or the name of a snapshot, to look at instead. */
    asOf?: string;
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<FileRead>;

  /** Read bytes of a file, as base64. */
  readFileBytes(given: {
    /** Where, relative to the root. */
    path: string;
    /** Where to begin. */
    offset?: number;
    /** How much at most (65536 unless told). */
    maxBytes?: number;
    /** A version, or the name of a snapshot, to look at instead. */
    asOf?: string;
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<FileBytes>;

  /** Write a whole text file, atomically. */
  writeFile(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & WriteBody, how?: How): Promise<FileWrite>;

  /** Replace text in a file; all edits land together or not at all. */
  editFile(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & EditBody, how?: How): Promise<FileEdit>;

  /** Add to the end of a file, making it where it is missing. */
  appendFile(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & AppendBody, how?: How): Promise<FileAppend>;

  /** Cut a file, or extend it with zeros. */
  truncateFile(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & TruncateBody, how?: How): Promise<FileTruncate>;

  /** The bytes of a file, streamed. Takes Range, If-Range, If-Match, If-None-Match. */
  download(given: {
    /** Where, relative to the root. */
    path: string;
    /** Show it: a picture as what it is, all else as plain text. */
    inline?: boolean;
    /** A version, or the name of a snapshot, to look at instead. */
    asOf?: string;
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The key of a console's session, where no header can be sent. */
    session?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<Response>;

  /** What GET /file/raw would answer, without the bytes. */
  downloadHead(given: {
    /** Where, relative to the root. */
    path: string;
    /** Show it: a picture as what it is, all else as plain text. */
    inline?: boolean;
    /** A version, or the name of a snapshot, to look at instead. */
    asOf?: string;
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The key of a console's session, where no header can be sent. */
    session?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<Response>;

  /** Write a file of any size from the body, atomically. Takes If-Match, If-None-Match. */
  putFile(given: {
    /** Where, relative to the root. */
    path: string;
    /** What may stand there. */
    mode?: "create" | "overwrite" | "replace";
    /** The hash of what is replaced. */
    expectedHash?: string;
    /** The version of what is replaced. */
    expectedVersion?: string;
    /** Also make the directories above it. */
    parents?: boolean;
    /** Permission bits: octal (0644), or a number. */
    fileMode?: string;
    /** The token of a lock that is held on the path. */
    lockToken?: number;
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & { body: Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array> | string }, how?: How): Promise<FileWrite>;

  /** Write an upload, never over anything: a taken name is numbered. */
  uploadFile(given: {
    /** Where, relative to the root. */
    path: string;
    /** Also make the directories above it. */
    parents?: boolean;
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & { body: Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array> | string }, how?: How): Promise<FileUpload>;

  /** One page of a directory, sorted by name. */
  list(given?: {
    /** The directory; the root unless told. */
    path?: string;
    /** How many at most, up to 2,000. */
    limit?: number;
    /** Goes on where an earlier answer ended. */
    cursor?: string;
    /** Also what ignore files leave out. */
    includeIgnored?: boolean;
    /** A version, or the name of a snapshot, to look at instead. */
    asOf?: string;
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<Listing>;

  /** What is known of a file, directory or link. */
  stat(given: {
    /** Where, relative to the root. */
    path: string;
    /** Whether a link is followed (true unless told). */
    follow?: boolean;
    /** A version, or the name of a snapshot, to look at instead. */
    asOf?: string;
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<StatResult>;

  /** The text of a link. */
  readLink(given: {
    /** Where, relative to the root. */
    path: string;
    /** A version, or the name of a snapshot, to look at instead. */
    asOf?: string;
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<LinkResult>;

  /** Make a directory; with parents also those above it. */
  makeDirectory(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & DirBody, how?: How): Promise<Changed>;

  /** Give a file, link or directory another name, atomically. */
  move(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & MoveBody, how?: How): Promise<Changed>;

  /** Copy a file or directory to a new name, also from another root (only then parents). */
  copy(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & CopyBody, how?: How): Promise<Changed>;

  /** Remove a file, a link, or a directory (a full one only with recursive). */
  remove(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & RemoveBody, how?: How): Promise<Changed>;

  /** Make a link. */
  symlink(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & SymlinkBody, how?: How): Promise<Changed>;

  /** Set permission bits. */
  setMode(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & ModeBody, how?: How): Promise<Changed>;

  /** Set the times of a file or directory. */
  setTimes(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & TimesBody, how?: How): Promise<Changed>;

  /** Files and directories whose path matches: * ** ? [ab] [!ab] {a,b}. */
  glob(given: {
    /** What to look for. */
    pattern: string;
    /** Where to look; the whole root unless told. */
    path?: string;
    /** How many at most, up to 50,000. */
    limit?: number;
    /** Goes on where an earlier answer ended. */
    cursor?: string;
    /** Also what ignore files leave out. */
    includeIgnored?: boolean;
    /** Also what each match is, as entries like those of /find. */
    entries?: boolean;
    /** A version, or the name of a snapshot, to look at instead. */
    asOf?: string;
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<GlobResult>;

  /** Everything beneath a directory that fits all conditions. */
  find(given?: {
    /** Where to look; the whole root unless told. */
    path?: string;
    /** For the name, or with a slash for the path. */
    pattern?: string;
    /** What it is. */
    type?: "file" | "directory" | "symlink" | "other";
    /** How deep to look. */
    depth?: number;
    /** Only what is empty, or only what is not. */
    empty?: boolean;
    /** At least so many bytes. */
    sizeMin?: number;
    /** At most so many bytes. */
    sizeMax?: number;
    /** Changed after this time. */
    modifiedAfterNs?: number;
    /** How many at most, up to 50,000. */
    limit?: number;
    /** Goes on where an earlier answer ended. */
    cursor?: string;
    /** Also what ignore files leave out. */
    includeIgnored?: boolean;
    /** A version, or the name of a snapshot, to look at instead. */
    asOf?: string;
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<FindResult>;

  /** All files beneath a directory, flat. */
  files(given?: {
    /** Where to look; the whole root unless told. */
    path?: string;
    /** How many at most, up to 50,000. */
    limit?: number;
    /** Goes on where an earlier answer ended. */
    cursor?: string;
    /** Also what ignore files leave out. */
    includeIgnored?: boolean;
    /** A version, or the name of a snapshot, to look at instead. */
    asOf?: string;
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<FilesResult>;

  /** Lines that match an RE2 pattern. */
  grep(given: {
    /** What to look for. */
    pattern: string;
    /** Where to look; the whole root unless told. */
    path?: string;
    /** The pattern is plain text. */
    literal?: boolean;
    /** Upper and lower case are the same. */
    ignoreCase?: boolean;
    /** Whole words only. */
    word?: boolean;
    /** Only files that match this glob: {*.py,*.md}. */
    include?: string;
    /** No files that match this glob. */
    exclude?: string;
    /** How many at most, up to 50,000. */
    limit?: number;
    /** Larger files are skipped; 0 skips none. */
    maxFileBytes?: number;
    /** Lines on either side of a match. */
    context?: number;
    /** Also what ignore files leave out. */
    includeIgnored?: boolean;
    /** Whether skipped files are listed (true unless told). */
    reportSkipped?: boolean;
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<GrepResult>;

  /** What differs between two files, or two versions of one. In an overlay a path alone is compared with what it lies over. */
  diff(given: {
    /** Where, relative to the root. */
    path: string;
    /** The file to compare with. */
    other?: string;
    /** A version, or the name of a snapshot, to look at instead. */
    asOf?: string;
    /** The version of the other to compare with. */
    otherAsOf?: string;
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<DiffResult>;

  /** Unpack a tar or zip archive into a directory. */
  extractArchive(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & ExtractBody, how?: How): Promise<Extracted>;

  /** Pack files and directories into an archive. */
  createArchive(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & CreateBody, how?: How): Promise<Archived>;

  /** A private root of its own, gone when it is closed or its time is up. */
  makeTemp(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & TempBody, how?: How): Promise<TempRoot>;

  /** Remove a private root and all that is in it. */
  closeTemp(given: {
    id: string;
  }, how?: How): Promise<TempClosed>;

  /** The versions of a file, of a directory, or of everything. */
  history(given?: {
    /** Of what; the whole root unless told. */
    path?: string;
    /** How many at most, up to 1,000. */
    limit?: number;
    /** Goes on where an earlier answer ended. */
    cursor?: string;
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<HistoryResult>;

  /** Make a file or directory what it was. */
  restore(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & RestoreBody, how?: How): Promise<Restored>;

  /** Take back what a request, a range of versions or a subject changed. */
  undo(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & UndoBody, how?: How): Promise<Undone>;

  /** Keep the version of now under a name. */
  snapshot(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & SnapshotBody, how?: How): Promise<SnapshotMade>;

  /** All snapshots. */
  snapshots(given?: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<SnapshotList>;

  /** Let go of a snapshot. */
  deleteSnapshot(given: {
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
    name: string;
  }, how?: How): Promise<Deleted>;

  /** Make a branch of everything, at once. */
  fork(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & ForkBody, how?: How): Promise<ForkMade>;

  /** All forks. */
  forks(given?: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<ForkList>;

  /** Remove a fork. */
  deleteFork(given: {
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
    name: string;
  }, how?: How): Promise<Deleted>;

  /** How a fork differs from this branch. */
  compare(given: {
    /** The fork to compare with. */
    name: string;
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<Compared>;

  /** Take over what a fork changed; with conflicts, nothing. */
  merge(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & MergeBody, how?: How): Promise<Merged>;

  /** Keep others from changing a place, for a while. */
  lock(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & LockBody, how?: How): Promise<Lock>;

  /** Hold a lock longer. */
  renewLock(given: {
    id: string;
  } & RenewBody, how?: How): Promise<Lock>;

  /** Give a lock back. */
  releaseLock(given: {
    id: string;
  }, how?: How): Promise<Released>;

  /** Several changes in one request: all or nothing, where there are transactions. */
  batch(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & BatchBody, how?: How): Promise<BatchResult>;

  /** Run a program in a sandbox, on a working copy. Answers line by line: the command, what it prints, and what became of it and of what it changed. */
  exec(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & ExecBody, how?: How): AsyncGenerator<ExecLine, void>;

  /** The commands of this subject that run, and those that ended not long ago. */
  executions(given?: Record<string, never>, how?: How): Promise<ExecutionList>;

  /** What a command has printed from a piece on, what it goes on to print, and its result: line by line, as often as anybody asks. */
  execOutput(given: {
    /** The first piece that is told, by its number: 0 unless told. */
    since?: number;
    id: string;
  }, how?: How): AsyncGenerator<ExecLine, void>;

  /** End a command with all it started, bring nothing back, and forget what it printed. */
  execClose(given: {
    id: string;
  }, how?: How): Promise<ExecutionClosed>;

  /** Hand bytes to a command that was begun with stdinPipe. */
  execInput(given: {
    /** Whether nothing more will come. */
    end?: boolean;
    id: string;
  } & { body: Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array> | string }, how?: How): Promise<InputTaken>;

  /** Send a signal to a command and what it has started, and to nothing else. */
  execSignal(given: {
    id: string;
  } & SignalBody, how?: How): Promise<WireExecution>;

  /** Its terminal has another size. */
  execResize(given: {
    id: string;
  } & ResizeBody, how?: How): Promise<WireExecution>;

  /** One working copy for many commands. */
  makeSession(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & SessionBody, how?: How): Promise<WireSession>;

  /** The sessions of this subject that are open. */
  sessions(given?: Record<string, never>, how?: How): Promise<SessionList>;

  /** Go on with a session that was left, or that is open. Its processes are gone where it says that they were lost. */
  openSession(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
    id: string;
  } & OpensessionBody, how?: How): Promise<WireSession>;

  /** A session that is open. */
  session(given: {
    id: string;
  }, how?: How): Promise<WireSession>;

  /** Where the commands that come are run, and with which variables. */
  setSession(given: {
    id: string;
  } & SetsessionBody, how?: How): Promise<WireSession>;

  /** End every command of a session, and keep what was not published. */
  closeSession(given: {
    id: string;
  }, how?: How): Promise<SessionClosed>;

  /** Run a program in the working copy of a session. Answers as POST /exec does. */
  sessionExec(given: {
    id: string;
  } & SessionexecBody, how?: How): AsyncGenerator<ExecLine, void>;

  /** What publishing a session would do to the tree as it stands now. */
  sessionChanges(given: {
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    id: string;
  }, how?: How): Promise<WorkChanges>;

  /** From what stands in the tree to what stands in a session. */
  sessionDiff(given: {
    /** Where, relative to the root. */
    path: string;
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    id: string;
  }, how?: How): Promise<WorkDiff>;

  /** Bring what was changed in a session back into the tree, as one change. */
  publishSession(given: {
    id: string;
  } & PublishsessionBody, how?: How): Promise<WorkPublished>;

  /** Give up what was changed in a session, all of it or some paths. */
  discardSession(given: {
    id: string;
  } & DiscardsessionBody, how?: How): Promise<WorkDiscarded>;

  /** Working copies that hold what is not in the tree. */
  work(given?: {
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<WorkList>;

  /** What a working copy would do to the tree as it stands now. */
  showWork(given: {
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
    id: string;
  }, how?: How): Promise<WorkChanges>;

  /** From what stands in the tree to what stands in a working copy. */
  diffWork(given: {
    /** Where, relative to the root. */
    path: string;
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
    id: string;
  }, how?: How): Promise<WorkDiff>;

  /** Bring a working copy back into the tree, all of it, some paths or single hunks, as one change. */
  applyWork(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
    id: string;
  } & ApplyworkBody, how?: How): Promise<WorkPublished>;

  /** Give up a working copy, all of it, some paths or single hunks. */
  discardWork(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
    id: string;
  } & DiscardworkBody, how?: How): Promise<WorkDiscarded>;

  /** What was changed in a root that is an overlay, and is not in the tree that it lies over. GET /diff with a path alone shows one of them. */
  overlay(given?: {
    /** The id of an approval: the same request again, once it was granted. */
    approval?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<WorkChanges>;

  /** Bring what was changed in an overlay into the tree that it lies over: all of it, some paths or single hunks, as one change. For people. */
  applyOverlay(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & ApplyoverlayBody, how?: How): Promise<WorkPublished>;

  /** Give up what was changed in an overlay, all of it, some paths or single hunks. For people. */
  discardOverlay(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & DiscardoverlayBody, how?: How): Promise<OverlayDiscarded>;

  /** What agents did, run by run: an agent sees its own, a person all. */
  runs(given?: {
    /** Only what was seen from this time on, in milliseconds. */
    since?: number;
    /** How many at most, up to 1,000. */
    limit?: number;
    /** Where an earlier answer left off. */
    cursor?: string;
    /** Which there are, and not what came of each. */
    brief?: boolean;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<RunList>;

  /** One run, by its id or the beginning of it. */
  run(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
    id: string;
  }, how?: How): Promise<WireRun>;

  /** What a run changed in all, in hunks. */
  runChanges(given: {
    /** Only what lies there. */
    path?: string;
    /** Only one step of it. */
    step?: string;
    /** How many hunks each path has, and not the hunks themselves. */
    brief?: boolean;
    /** Where an earlier answer left off. */
    cursor?: string;
    /** How many at most, up to 1,000. */
    limit?: number;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
    id: string;
  }, how?: How): Promise<RunChanged>;

  /** Take back a run, or a part of it, line by line by what stands there now. */
  undoRun(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
    id: string;
  } & RunUndoBody, how?: How): Promise<Undone>;

  /** What agents did that no person has agreed to, by path, in hunks. */
  review(given?: {
    /** Only what a run had to do with. */
    run?: string;
    /** Only what lies there. */
    path?: string;
    /** Where an earlier answer left off. */
    cursor?: string;
    /** How many at most, up to 1,000. */
    limit?: number;
    /** How many hunks each path has, and not the hunks themselves. */
    brief?: boolean;
    /** Instead, what a working copy would do to the tree. */
    work?: string;
    /** Instead, what a fork would do to it if it were merged. */
    ofFork?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<Reviewing>;

  /** Accept hunks, or reject them: those are taken back by what stands there now. Of a working copy or a fork they are applied, or given up there. */
  sayReview(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & ReviewBody, how?: How): Promise<ReviewSaid>;

  /** Every change, question, run and verdict as a server-sent event, as it comes. Takes Last-Event-ID. */
  events(given?: {
    /** Where; the whole root unless told. */
    path?: string;
    /** A cursor to go on from; Last-Event-ID says the same. */
    since?: string;
    /** Name each path of a directory that changed whole. */
    expand?: boolean;
    /** The key of a console's session, where no header can be sent. */
    session?: string;
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): AsyncGenerator<Event, void>;

  /** Records of the ledger, newest first. */
  audit(given?: {
    /** Who: user:local, agent_run:*. */
    subject?: string;
    /** Where: workspace:demo, workspace:*. */
    root?: string;
    /** What: write. */
    operation?: string;
    /** The very verb: write_text. */
    verb?: string;
    /** How it ended. */
    outcome?: "success" | "denied" | "failed";
    /** The kind of error. */
    errorKind?: string;
    /** A place and everything beneath it. */
    path?: string;
    /** A pattern for paths. */
    glob?: string;
    /** A request. */
    requestId?: string;
    /** A grant. */
    grantId?: string;
    /** From this time on, in milliseconds. */
    since?: number;
    /** Before this time, in milliseconds. */
    until?: number;
    /** How many at most, up to 1,000. */
    limit?: number;
    /** Goes on where an earlier answer ended. */
    cursor?: string;
  }, how?: How): Promise<AuditPage>;

  /** Prove that no record was changed, removed or moved. */
  verifyAudit(given?: {
    /** A head that was kept elsewhere: proves the end as well. */
    head?: string;
  }, how?: How): Promise<Verified>;

  /** Questions that wait for a person, or others by state. */
  approvals(given?: {
    /** Which (pending unless told). */
    state?: "pending" | "granted" | "denied" | "expired" | "used" | "all";
    /** How many at most, up to 1,000. */
    limit?: number;
    /** Goes on where an earlier answer ended. */
    cursor?: string;
  }, how?: How): Promise<ApprovalList>;

  /** One question with its paths and its diff. */
  approval(given: {
    id: string;
  }, how?: How): Promise<WireApproval>;

  /** Answer a question, for good. */
  answerApproval(given: {
    id: string;
  } & AnswerBody, how?: How): Promise<WireApproval>;

  /** What people answered for longer than once: for a grant, and always. */
  rememberedRules(given?: Record<string, never>, how?: How): Promise<RememberedRuleList>;

  /** Take such an answer back: from now on it is asked again. */
  forgetRule(given: {
    id: string;
  }, how?: How): Promise<RuleForgotten>;

  /** The roots that the caller may ask for. */
  roots(given?: Record<string, never>, how?: How): Promise<RootList>;

  /** Trust a root, so that it may be changed, or no more. */
  trust(given: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  } & TrustBody, how?: How): Promise<Trusted>;

  /** The grants that hold now; an agent sees its own. */
  grants(given?: {
    /** Only on this root: kind:id. */
    root?: string;
  }, how?: How): Promise<GrantList>;

  /** Let a subject, or a pattern of them, ask for a root. */
  addGrant(given: GrantBody, how?: How): Promise<WireGrant>;

  /** End a grant and all that came from it, at once. */
  revokeGrant(given: {
    id: string;
  } & RevokeBody, how?: How): Promise<Revoked>;

  /** Pass on a part of a grant that the caller holds, with a token. */
  delegateGrant(given: {
    id: string;
  } & DelegateBody, how?: How): Promise<Delegated>;

  /** The tokens that hold now, without their secrets. */
  tokens(given?: Record<string, never>, how?: How): Promise<TokenList>;

  /** Let an agent in: a token, and with `access` a grant that ends with it. */
  makeToken(given: TokenBody, how?: How): Promise<TokenMade>;

  /** End a token and what was granted with it, at once. */
  endToken(given: {
    name: string;
  }, how?: How): Promise<TokenEnded>;

  /** What this server, and the caller on this root, can do. */
  capabilities(given?: {
    /** The fork to act in, instead of the root itself. */
    fork?: string;
  }, how?: How): Promise<Capabilities>;

  /** Whether the server runs. */
  health(given?: Record<string, never>, how?: How): Promise<Health>;

  /** Whether the server takes changes. */
  ready(given?: Record<string, never>, how?: How): Promise<Ready>;

  /** Counters for Prometheus, from when they were first asked for. */
  metrics(given?: Record<string, never>, how?: How): Promise<string>;

  /** This table, as OpenAPI 3.1. */
  openapi(given?: Record<string, never>, how?: How): Promise<Record<string, unknown>>;

  /** Every change, question, run and verdict as it comes, each with its `event`. */
  follow(given?: Parameters<Operations["events"]>[0], how?: How): AsyncGenerator<Told, void>;
}
