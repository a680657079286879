"""Databricks: Spark's SQL with its own ``ai_query`` and Delta tables."""
