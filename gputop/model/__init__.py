"""The words of the house as frozen types and columns; knows no other room and does no I/O."""
