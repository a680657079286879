"""The model client: many requests in flight against an OpenAI-compatible endpoint, or the mock model."""
