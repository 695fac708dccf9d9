"""How many requests may start, be in flight and be spent."""
