"""A simulated cluster behind real SSH servers and Slurm commands, or in this process under a virtual clock."""
