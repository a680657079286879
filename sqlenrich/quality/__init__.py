"""How good the answers are: comparison of two runs, metrics, statistics."""
