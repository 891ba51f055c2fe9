"""A real Slurm with real sshds on this machine, and GPUs that are a file: for tests, and by hand with `make lab`."""
