"""Plans: from conversations to committed memories."""
