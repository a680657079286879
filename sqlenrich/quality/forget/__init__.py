"""Rows whose texts leave all tables and output files."""
