"""The quality of answers: comparison of two sides, sample, metrics, statistics."""
