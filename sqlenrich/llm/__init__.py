"""The model client. It runs on executors too and imports ``core`` alone."""
