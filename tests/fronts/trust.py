"""Whom the clients of tests trust.

A client of httpx reads all the certificates of the machine when it is made, which takes 40 ms of a
processor, also where it speaks plain HTTP. Servers of tests do: their clients share one reading.
"""

import functools
import ssl


@functools.cache
def trusted() -> ssl.SSLContext:
    return ssl.create_default_context()
