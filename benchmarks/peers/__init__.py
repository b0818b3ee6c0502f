"""Other people's agents. Each is run in a process of its own, by the Python that has its packages."""
