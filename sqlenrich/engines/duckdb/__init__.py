"""DuckDB, embedded: a Python client asks the model."""
