from tests.scope.support import disk, either, opening

__all__ = ["disk", "either", "opening"]
