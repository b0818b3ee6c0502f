"""Where the vectors of an index are kept and compared when not in its own files: one seam, and its drivers."""
