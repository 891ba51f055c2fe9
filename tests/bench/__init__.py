"""Figures, printed: every budget that this machine can measure, and how it was measured."""
