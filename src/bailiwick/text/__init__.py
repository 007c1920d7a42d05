"""Text as files hold it: telling it from binary, decoding, windows of lines, edits, diffs.

Pure functions over bytes and strings. Nothing here opens a file, reads a clock or starts a thread:
whoever has the bytes hands them in. Modules, in the order they build on each other:

``sniff``     text or binary; byte order marks
``codec``     bytes to text and back, exactly; line endings
``newlines``  counting and finding line feeds in bytes of one encoding
``cursor``    the opaque text that continues a window
``lines``     windows of lines into files of any size
``edits``     replacing text and nothing else
``diff``      unified diffs within a bound
``merge``     what two have made of one text, joined; single hunks of a difference
``json_document``  JSON, and where it goes wrong
"""
