"""The tool graph: who supplies an identifier, and what runs teach."""
