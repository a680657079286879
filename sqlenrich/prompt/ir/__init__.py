"""The typed text expression that a template compiles to."""
