"""How well a model extracts and decides: cases with gold, scores, costs, tables."""
