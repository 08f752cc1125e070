"""Someone's own training loop, watched from inside its process; it must never stop or slow it."""
