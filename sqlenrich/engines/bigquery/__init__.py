"""BigQuery: ``AI.GENERATE`` over an endpoint, ``AI.GENERATE_TEXT`` over a remote model."""
