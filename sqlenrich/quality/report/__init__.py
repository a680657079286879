"""What is known of a table of answers, as text and as one page."""
