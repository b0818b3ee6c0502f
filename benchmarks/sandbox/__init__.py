"""Sandboxes, ATC's and others', by the same programs."""
