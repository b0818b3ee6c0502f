"""Finding the tools that a task needs among many."""
