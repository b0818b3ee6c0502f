"""The type of an answer: what the user asked for, in the prompt, in the check, and after the run."""
