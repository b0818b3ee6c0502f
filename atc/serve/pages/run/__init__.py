"""A run as a page: what it did, on the lines of its programs."""
