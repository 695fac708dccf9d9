"""The Parquet back end: immutable files, and one manifest per version."""
