"""Code mode: what an MCP client reads and waits for, by a script."""
