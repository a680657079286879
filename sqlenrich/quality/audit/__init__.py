"""What was asked, answered and accepted, rebuilt from what is stored."""
