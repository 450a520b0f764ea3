"""An agent that obeys a script, in the protocol of Codex app-server: no keys and no model.

    python -m lastout.agents.scripted --home DIR [options]

A message whose lines begin with `/` is its script for that turn; any other text is answered with
"you said: TEXT".

    /say TEXT            answer with this text
    /run COMMAND         run a shell command in a session of its own, and wait for it
    /background COMMAND  the same, without waiting
    /escape COMMAND      double fork and setsid: the command leaves the agent's tree of parents
    /later S COMMAND     run it S seconds after the end of the turn, unasked
    /stubborn COMMAND    run it with HUP, INT and TERM ignored, and wait for it
    /ask COMMAND         ask for approval, then run it or not
    /sleep SECONDS       do nothing
    /fail TEXT           the turn fails
    /print TEXT          print a raw line (rubbish)
    /half TEXT           print it without a newline
    /big BYTES           print one valid line of about this many bytes
    /ignore WHAT[,WHAT]  from now on ignore: interrupt, stdin, term
    /exit CODE           exit at once

Options: --lock (refuse a second writer as Codex does), --ignore WHAT[,WHAT], --die TEXT (print it
and exit 3 at start), --slow SECONDS (wait before the first answer), --server COMMAND (start this
at once, in a session of its own), --chatter SECONDS (send a warning every so often).

It imports nothing but the standard library, so that it starts in a few milliseconds.
"""
