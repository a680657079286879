"""What a template computes with: values, and the functions on them."""
