"""A part of a package, named as if it were a file of its own."""

from __future__ import annotations

from .models import nano as build

__all__ = ["build"]
