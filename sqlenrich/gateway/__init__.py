"""An OpenAI-compatible server on this machine that answers each request once and keeps every answer."""
