"""The outside world turned into facts, and intents turned into calls; decides nothing."""
