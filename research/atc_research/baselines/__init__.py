"""What papers measure themselves against: ReAct, a plan first, CodeAct, DFSDT."""
