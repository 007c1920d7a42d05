"""What proves an implementation: the store contract, hostile names, faults, a model of a tree.

Shipped with the package, so that a store written elsewhere is held to the same contract. Needs no
test runner; nothing here is imported by the rest of Bailiwick.

    from bailiwick.testing.store_contract import run_contract
    asyncio.run(run_contract(make_driver))

With pytest, parametrise over `bailiwick.testing.store_contract.CASES`, and call
``pytest.register_assert_rewrite("bailiwick.testing")`` first: failures then show their values.
"""
