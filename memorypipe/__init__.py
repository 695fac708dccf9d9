"""Turn conversation logs into a clean, trustworthy memory table for AI agents."""
