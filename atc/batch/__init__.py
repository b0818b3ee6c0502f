"""Many tasks for one agent: a file of tasks in, a file of results out, on this machine or on a cluster."""
