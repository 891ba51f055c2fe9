"""Slurm, read and asked to act."""
