"""Whether the tests of the core notice when the core is wrong: `make mutation`."""
