"""An OpenAI-compatible endpoint: requests, HTTP, responses and health."""
