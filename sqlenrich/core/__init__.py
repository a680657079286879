"""What every other part imports: errors, types, JSON, endpoints, sqlglot builders and the contract of an engine."""
