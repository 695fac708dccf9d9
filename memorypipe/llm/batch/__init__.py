"""The provider's Batch API."""
