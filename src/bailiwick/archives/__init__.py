"""Archives as bytes: what is in one, and how one is written.

Pure: a reader asks for ranges of bytes and hands out what it found in them; a writer turns entries
into bytes. Nothing here opens, names or makes a file, and nothing here is trusted with that: what a
reader hands out was checked, and is then made by the verbs of a store all the same.

The formats are read by our own code, not by `tarfile` and `zipfile`: those are made to accept
whatever can be understood somehow, and an archive that two programs understand differently is an
attack on one of them. Here such an archive is refused.
"""
