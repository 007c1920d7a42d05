"""How verbs and values go over the wire: one mapping, for every front and for the client.

The wire says what a scope returns by names of its own: camelCase, ``hash`` with its algorithm
before it, ``sizeBytes``, times in milliseconds, permission bits in octal. What follows from the
name and the type of a field is a rule (`bailiwick.wire.forms`); what does not is a row of one table
(`bailiwick.wire.values`). Results over HTTP and their schemas, the values of the client and the
documents of commands are made from these. How each verb is asked for is a row of another table
(`bailiwick.wire.verbs`), from which routes and requests are made. The names are a promise.
"""

from __future__ import annotations

from bailiwick.wire import values
from bailiwick.wire.forms import Document, Form, Result, read, told
from bailiwick.wire.names import Unreadable, camel

__all__ = ["Document", "Form", "Result", "Unreadable", "camel", "read", "told", "values"]
