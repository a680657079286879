"""BigQuery: ``AI.GENERATE_TEXT`` over a remote model."""
