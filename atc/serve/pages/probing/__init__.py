"""What probing came to, as a page."""
