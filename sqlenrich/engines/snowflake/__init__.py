"""Snowflake: ``AI_COMPLETE``."""
