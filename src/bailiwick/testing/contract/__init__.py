"""The cases of the store contract, one room a topic. `bailiwick.testing.store_contract` has all."""
