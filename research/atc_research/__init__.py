"""Other papers' ways to solve a task, and what they train: they are there to be compared with."""
