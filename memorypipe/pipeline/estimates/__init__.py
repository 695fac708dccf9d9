"""What a run will take in calls, tokens, money and time."""
