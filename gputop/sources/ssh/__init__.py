"""Nodes over SSH: links, probes and what they say, as facts."""
