"""What every run has, whatever it makes: a folder, a record, bounds, a budget, a lock."""
