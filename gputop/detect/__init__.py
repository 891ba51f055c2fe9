"""Rules that find failing nodes: pure functions over a snapshot and their own small past; one rule a file."""
