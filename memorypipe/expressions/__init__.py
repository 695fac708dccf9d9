"""Expressions for Ray Data columns."""
