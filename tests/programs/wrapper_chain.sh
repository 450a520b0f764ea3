#!/bin/sh
# Shell, shell, leaf: like npx, npm exec, sh -c, server. The shells die on TERM without passing it
# on; the leaf ignores TERM, INT and HUP and keeps stdin and stdout open.
"$LASTOUT_TEST_PROGRAMS/report" $$ root
sh -c '"$LASTOUT_TEST_PROGRAMS/report" $$ wrapper
  "$LASTOUT_TEST_PROGRAMS/actor" leaf ignore
  :'
:
