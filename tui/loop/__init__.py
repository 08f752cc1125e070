"""Someone's own training loop, watched: a view, its charts and its ranks."""
