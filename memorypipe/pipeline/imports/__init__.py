"""Another store's memories, on their way into a plan."""
