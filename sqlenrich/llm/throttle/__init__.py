"""Flow control: token buckets, rate headers, concurrency limit, circuit breaker, budget."""
