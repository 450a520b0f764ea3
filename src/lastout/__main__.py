"""`python -m lastout`: the same as the `lastout` command."""

from lastout.cli.main import main

main()
