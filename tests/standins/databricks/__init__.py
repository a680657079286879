"""Databricks on this machine: a process that speaks Thrift and the REST API before the Spark stand-in.

It takes unmodified clients (databricks-sql-connector), and goes on with their statements when they die. What it can't
show: Databricks' own SQL, its ``ai_query``, quotas, prices, and how long it keeps a dead client's session.
"""
