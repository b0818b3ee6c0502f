"""The tools of an agent and what is known about them; what is offered for a task, and why."""
