"""What this machine allows, found by trying: `lastout doctor`.

A check is a function without arguments that gives findings; a tier is a row in tiers.py.
"""
