"""The configurations of MCP clients: ATC's entry in them, and their servers moved behind it and back.

A client is one record of ``clients.toml``. Its file belongs to the user: an edit changes one entry and nothing
else but the layout of JSON, and is written only if what it makes, read again, is exactly what was meant.
"""
