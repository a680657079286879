"""The connection to BigQuery through its vendor's client."""
