"""The commands: each parses its arguments, calls one public function and prints. Data to stdout, messages to stderr."""
