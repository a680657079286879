"""Who asks: the client of an endpoint or of the mock, the warehouse's own function, Spark's executors."""
