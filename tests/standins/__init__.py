"""Local stand-ins for the warehouses: what can be known about the SQL without an account.

Importing this package needs none of the optional tools (zetasql, pyspark, sqlfluff); each
function imports its own when it is called.
"""
