"""The gateway: what callers get, what the endpoint is asked, what is stored."""
