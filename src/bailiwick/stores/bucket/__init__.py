"""A store that shows the objects of a bucket as files, to be read.

Nothing is fetched before somebody asks: a directory is one listing, a file one look and the range
that is read. What others put there shows as soon as it is looked at again.
"""

from bailiwick.stores.bucket.store import BucketObjects, BucketStore, ListedObjects, SeenObject

__all__ = ["BucketObjects", "BucketStore", "ListedObjects", "SeenObject"]
