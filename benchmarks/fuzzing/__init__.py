"""Coverage-guided fuzzing of what reads a stranger's bytes: one target a file (``python -m benchmarks.fuzzing``)."""
