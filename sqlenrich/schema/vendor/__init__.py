"""The part of a schema that a vendor takes as a response format."""
