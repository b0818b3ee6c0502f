"""Other papers' ways to solve a task, as strategies of ATC: they are there to be compared with."""
