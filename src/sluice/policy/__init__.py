"""Policy: a call in, a verdict out. `rules` holds what a user allows, `decide` applies it and never fails open."""
