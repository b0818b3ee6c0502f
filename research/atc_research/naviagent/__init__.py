"""NaviAgent: decisions turn by turn, over the tool graph; and predicted links."""
