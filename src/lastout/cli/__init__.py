"""The `lastout` command. `main` finds the other files of this directory by their names."""
