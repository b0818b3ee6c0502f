"""The user's own runs teach the ranking of tools."""
