"""Speed: the local model, and the server of the pages."""
