"""A plugin of pytest that loads a mutant in the place of a module; nothing on disk is changed.

Which one is in the environment: ``BAILIWICK_MUTANT=bailiwick.paths:17``.
"""

import importlib.machinery
import importlib.util
import os
import sys

from tests.mutation.mutants import mutated

VARIABLE = "BAILIWICK_MUTANT"


class Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name, path, number):
        super().__init__(name, path)
        self.number = number

    def get_code(self, fullname):
        tree = mutated(self.get_data(self.path).decode(), self.number)
        return compile(tree, self.path, "exec", dont_inherit=True)


class Finder:
    def __init__(self, name, number):
        self.name = name
        self.number = number

    def find_spec(self, fullname, path, target=None):
        if fullname != self.name:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        loader = Loader(fullname, found.origin, self.number)
        return importlib.util.spec_from_file_location(fullname, found.origin, loader=loader)


def pytest_load_initial_conftests():
    name, _, number = os.environ[VARIABLE].partition(":")
    if name in sys.modules:
        raise RuntimeError(f"{name} was loaded before its mutant could be")
    sys.meta_path.insert(0, Finder(name, int(number)))
