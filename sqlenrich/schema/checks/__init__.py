"""The checks of an answer: one list of tests, evaluated in Python and in SQL."""
