"""The typed text expression as SQL."""
