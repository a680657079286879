"""The wire forms: how a request is written for each API, and how its answer is read."""
