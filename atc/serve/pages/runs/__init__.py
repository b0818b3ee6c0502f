"""The list of runs as a page."""
