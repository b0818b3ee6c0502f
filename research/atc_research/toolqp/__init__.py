"""ToolQP: training data, rewards and trainings for models that plan and search."""
