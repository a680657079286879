"""Open-source Spark: ``ai_query`` is a function that sqlenrich registers."""
