"""The Agent Client Protocol: an agent's file calls, served from a scope.

Two ways in. `adapter` serves the file calls of a client that is built on the protocol's Python SDK;
`proxy` stands between an editor and an agent that know nothing of Bailiwick, and needs no SDK. Both
answer through `files`, ask through `permissions` and fail through `errors`.
"""
