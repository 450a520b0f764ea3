"""What is known about a run: its lines, and what can be said from them."""
