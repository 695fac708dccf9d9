"""Readers of conversation logs, and windows over them."""
