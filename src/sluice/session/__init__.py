"""Wet: what is stored of a run, and the audit of what was decided and started."""
