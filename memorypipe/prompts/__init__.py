"""Instructions, format rules and examples, each from one source."""
