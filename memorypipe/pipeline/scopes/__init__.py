"""The consolidation of one scope. Pure but for the model."""
