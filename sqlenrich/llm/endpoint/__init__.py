"""An OpenAI-compatible endpoint: its settings, HTTP, responses and health."""
