"""Readers of a plan that print SQL."""
