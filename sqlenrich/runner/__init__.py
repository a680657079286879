"""A plan, a backend and a model to tables and a report."""
