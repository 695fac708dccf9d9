"""The rules of the offline model: pure functions from a task to the items of a reply."""
