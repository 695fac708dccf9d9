"""Ranking of memories within one scope: by words, by vectors, by both."""
