"""Connections to warehouses through the vendors' clients: one module a warehouse."""
