"""Views and dialogs, one a file."""
