"""The memory table: rows, atomic commits, history."""
