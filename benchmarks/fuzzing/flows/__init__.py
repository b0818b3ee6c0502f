"""Generated programs over fake tools, and what shows whether their origins are told soundly."""
