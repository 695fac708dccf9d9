"""What is wrong in a memory table: duplicates, contradictions, orphans, junk."""
