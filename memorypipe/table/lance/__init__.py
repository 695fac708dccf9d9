"""The Lance back end: one dataset in a LanceDB database directory."""
