"""Pages for people that need nothing else: one file, no server, nothing loaded from elsewhere."""
