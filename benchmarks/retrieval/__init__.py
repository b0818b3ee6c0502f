"""Finding tools: rankings, what is offered, and plans before a search."""
