"""Two prompts or two models over the same rows."""
