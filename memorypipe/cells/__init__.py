"""Pure functions between JSON cells and values."""
