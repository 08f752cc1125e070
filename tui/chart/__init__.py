"""Charts as pure functions: points in, rows of styled text out."""
