"""A scripted stand-in for a model's service on 127.0.0.1, for real agents without a network."""
