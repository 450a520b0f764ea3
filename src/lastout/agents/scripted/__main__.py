"""`python -m lastout.agents.scripted`."""

from lastout.agents.scripted.program import main

main()
