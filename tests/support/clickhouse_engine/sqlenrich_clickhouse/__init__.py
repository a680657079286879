"""ClickHouse as an engine of another distribution. All facts were measured on 26.9, embedded as chdb 4.4."""
