"""The connection to Databricks through its vendor's client."""
