"""Tools from MCP servers (Model Context Protocol): a command that speaks over its pipes, or an address over HTTP.

The server is a stranger. What it says about a tool becomes a protocol (JSON Schemas and bounded text), never code; its
hints about effects are hints. Its process gets a small environment and is ended with the run. The official SDK, the
extra ``mcp``, is imported when a server is spoken to and not before.
"""
