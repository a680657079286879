"""A model that is a class of the user, loaded in a process of its own."""
