"""What a user writes: the prompt file, the settings, the prices."""
