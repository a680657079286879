"""What all rooms stand on: errors, types, JSON, sqlglot builders and the contract of an engine."""
