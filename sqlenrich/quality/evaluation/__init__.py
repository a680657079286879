"""A prompt and a model against labels."""
