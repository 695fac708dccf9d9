"""Model access: what travels to a worker, and the live client made there."""
