"""SQL that several engines build in the same way."""
