"""The compiler of Jinja templates: a handler for each kind of node."""
