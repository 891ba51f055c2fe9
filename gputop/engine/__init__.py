"""Observes, folds, acts and emits frames; joins the rooms below and never loads the screen."""
