"""From a batch of actions to at most one change per memory. Pure."""
