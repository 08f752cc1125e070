"""Widgets: each takes a view and draws it; none keeps data of its own."""
