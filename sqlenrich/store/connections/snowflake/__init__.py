"""The connection to Snowflake through its vendor's client."""
