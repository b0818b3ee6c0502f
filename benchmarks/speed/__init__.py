"""Speed: the local model."""
