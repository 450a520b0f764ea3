"""Measurements of lastout beside its peers; `python -m bench --help` lists them."""
