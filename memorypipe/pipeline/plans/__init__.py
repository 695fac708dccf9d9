"""Plans: what a run would commit, to look at, filter, compare and apply."""
