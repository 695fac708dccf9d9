"""Erasure: from the request to the receipt."""
