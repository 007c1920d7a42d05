"""MCP: the file tools and the files themselves, for any client of the Model Context Protocol.

    service       what is served: tools, resources, questions; plain values of the protocol
    answers       a tool's answer as the protocol has it
    resources     files and directories by address, in ranges of bytes
    completing    how an address goes on that somebody types
    following     changes, for those who subscribed
    questions     a person is asked by the client, where it can
    opening       from an authority to the workspaces of one agent
    wire · conversation · pipes · serving     over stdin and stdout
    sdk_server · mounting                     over HTTP, by the official SDK

Over HTTP the official SDK speaks. Over pipes it would take longer to load than everything else
together, and most of the time of a small call; so there the two dialects of the protocol (the
handshake until 2025-11-25, the envelope of 2026-07-28) are spoken here, and the tests hold every
answer against the SDK's.
"""
