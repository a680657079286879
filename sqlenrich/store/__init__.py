"""Where the steps of a plan run and its tables live."""
