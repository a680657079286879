"""vLLM servers beside Spark's executors: ``fleet`` runs on the driver, ``keeper`` beside each server."""
