"""gputop watches a Slurm GPU cluster, says what is broken, and recovers it."""
