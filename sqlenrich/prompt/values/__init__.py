"""The values of a template, and the functions on them."""
