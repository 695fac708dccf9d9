"""What models reply, and how it is read."""
