"""Programs: the check, who is to blame, what repairs a call, and tools that break."""
