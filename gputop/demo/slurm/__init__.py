"""A simulated slurmctld: it does to the same history what a real one of release 22.05 does, traps included."""
