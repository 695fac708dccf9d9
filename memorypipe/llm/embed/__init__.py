"""Embedders: from texts to vectors, on this machine or behind an endpoint."""
