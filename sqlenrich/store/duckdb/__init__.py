"""The backend of an embedded DuckDB database."""
