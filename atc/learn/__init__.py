"""Making training data and rewards for models that search. Nothing that runs a task imports this package."""
