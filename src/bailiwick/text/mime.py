"""What kind of content a file has, as a MIME type: by its name, else by its first bytes.

A table of our own and not the system's, so that every machine gives the same answer. The name
decides where it says anything: that is what whoever named the file meant by it, and it costs
nothing. A hint for people and fronts, never a reason to trust content.
"""

from __future__ import annotations

from bailiwick.text.sniff import TEXT_PROBE_BYTES, is_binary_text

PROBE_BYTES = TEXT_PROBE_BYTES
"""How many of the first bytes are looked at."""

BINARY = "application/octet-stream"
PLAIN = "text/plain"

_BY_EXTENSION = {
    # text
    "txt": PLAIN, "text": PLAIN, "log": PLAIN, "cfg": PLAIN, "conf": PLAIN, "ini": PLAIN,
    "md": "text/markdown", "markdown": "text/markdown", "rst": "text/x-rst", "csv": "text/csv",
    "tsv": "text/tab-separated-values", "html": "text/html", "htm": "text/html",
    "css": "text/css", "xml": "application/xml", "json": "application/json",
    "jsonl": "application/jsonl", "ndjson": "application/x-ndjson",
    "ipynb": "application/x-ipynb+json", "yaml": "application/yaml", "yml": "application/yaml",
    "toml": "application/toml", "sql": "application/sql", "diff": "text/x-diff",
    "patch": "text/x-diff", "tex": "application/x-tex", "ics": "text/calendar",
    "vcf": "text/vcard", "svg": "image/svg+xml", "rtf": "application/rtf",
    # programs
    "js": "text/javascript", "mjs": "text/javascript", "cjs": "text/javascript",
    "ts": "text/x-typescript", "tsx": "text/x-typescript", "jsx": "text/javascript",
    "py": "text/x-python", "pyi": "text/x-python", "rb": "text/x-ruby", "go": "text/x-go",
    "rs": "text/x-rust", "c": "text/x-c", "h": "text/x-c", "cc": "text/x-c++",
    "cpp": "text/x-c++", "hpp": "text/x-c++", "cs": "text/x-csharp", "java": "text/x-java",
    "kt": "text/x-kotlin", "swift": "text/x-swift", "php": "text/x-php", "pl": "text/x-perl",
    "lua": "text/x-lua", "r": "text/x-r", "sh": "application/x-sh", "bash": "application/x-sh",
    "zsh": "application/x-sh", "ps1": "text/x-powershell", "bat": "application/x-bat",
    "wasm": "application/wasm", "class": "application/java-vm",
    # pictures, sound, film, fonts
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif",
    "webp": "image/webp", "avif": "image/avif", "bmp": "image/bmp", "ico": "image/x-icon",
    "tif": "image/tiff", "tiff": "image/tiff", "heic": "image/heic", "mp3": "audio/mpeg",
    "wav": "audio/wav", "ogg": "audio/ogg", "opus": "audio/opus", "flac": "audio/flac",
    "m4a": "audio/mp4", "mp4": "video/mp4", "webm": "video/webm", "mov": "video/quicktime",
    "mkv": "video/x-matroska", "avi": "video/x-msvideo", "woff": "font/woff",
    "woff2": "font/woff2", "ttf": "font/ttf", "otf": "font/otf",
    # documents, archives, data
    "pdf": "application/pdf", "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "ppt": "application/vnd.ms-powerpoint",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "odt": "application/vnd.oasis.opendocument.text",
    "ods": "application/vnd.oasis.opendocument.spreadsheet", "epub": "application/epub+zip",
    "zip": "application/zip", "whl": "application/zip", "jar": "application/java-archive",
    "tar": "application/x-tar", "gz": "application/gzip", "tgz": "application/gzip",
    "bz2": "application/x-bzip2", "xz": "application/x-xz", "zst": "application/zstd",
    "7z": "application/x-7z-compressed", "rar": "application/vnd.rar",
    "db": "application/vnd.sqlite3", "sqlite": "application/vnd.sqlite3",
    "parquet": "application/vnd.apache.parquet", "bin": BINARY, "exe": BINARY, "so": BINARY,
    "o": BINARY, "a": BINARY, "pyc": BINARY, "dat": BINARY,
}  # fmt: skip

_BY_NAME = {
    "makefile": PLAIN, "dockerfile": PLAIN, "license": PLAIN, "readme": PLAIN, "notice": PLAIN,
    ".gitignore": PLAIN, ".bailiwickignore": PLAIN, ".gitattributes": PLAIN, ".env": PLAIN,
    ".editorconfig": PLAIN,
}  # fmt: skip

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"\x7fELF", "application/x-executable"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"\x00asm", "application/wasm"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
    (b"PAR1", "application/vnd.apache.parquet"),
    (b"#!", "text/x-script"),
)

_TAR_SIGNATURE = 257, b"ustar"
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_MARKUP = ((b"<!doctype html", "text/html"), (b"<html", "text/html"), (b"<?xml", "application/xml"))


def by_name(name: str) -> str | None:
    """The type that a file's name says; None where it says nothing."""
    lowered = name.lower()
    known = _BY_NAME.get(lowered)
    if known is not None:
        return known
    stem, dot, extension = lowered.rpartition(".")
    return _BY_EXTENSION.get(extension) if dot and stem else None


def by_content(prefix: bytes) -> str:
    """The type that the first bytes say; text or binary where they say no more."""
    for signature, kind in _SIGNATURES:
        if prefix.startswith(signature):
            return kind
    if prefix.startswith(b"RIFF") and prefix[8:12] in _RIFF:
        return _RIFF[prefix[8:12]]
    if prefix[4:8] == b"ftyp":
        return "video/mp4"
    at, signature = _TAR_SIGNATURE
    if prefix[at : at + len(signature)] == signature:
        return "application/x-tar"
    if is_binary_text(prefix):
        return BINARY
    beginning = prefix[:256].lstrip().lower()
    for mark, kind in _MARKUP:
        if beginning.startswith(mark):
            return kind
    return PLAIN
