"""An enrichment and an engine to a plan of five steps."""
