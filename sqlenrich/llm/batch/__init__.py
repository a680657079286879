"""Batches: a vendor answers many requests within a day, at a lower price. It stands on ``llm`` and ``core`` alone."""
