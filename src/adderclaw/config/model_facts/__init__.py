"""What is known of each model: its context window, its prices, what it accepts."""
