"""The Compare view: two marked runs, what is different between them and what changed."""
