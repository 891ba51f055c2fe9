"""The screen: reads frames, sends commands, and knows only stream and model."""
