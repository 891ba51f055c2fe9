"""Frames, the session log and the socket; knows nothing of who reads."""
