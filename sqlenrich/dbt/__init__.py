"""A plan as files of a dbt project: macros with an arm per adapter, models, and their properties."""
