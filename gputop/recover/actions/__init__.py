"""One action a file: what it sends, what stops it, and what proves it."""
