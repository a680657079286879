"""The mock model: free invented answers that fit the schema."""
