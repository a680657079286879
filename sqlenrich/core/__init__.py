"""What every other part imports: errors, types, JSON, sqlglot builders and the contract of an engine."""
