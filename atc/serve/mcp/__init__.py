"""ATC as one MCP server in front of all tools: a client's own model looks tools up, and writes programs over them.

The client is a stranger, and so is its model: what they send is checked, runs in the jail and passes the broker.
"""
