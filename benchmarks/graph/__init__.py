"""The tool graph: who supplies an identifier, layers of tools, and what runs teach."""
