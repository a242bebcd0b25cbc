"""Sluice: a local coding agent whose host stays in control, and its streaming core."""

__version__ = "0.1.0"
