"""The checks of an answer: one list, evaluated in Python and in SQL."""
