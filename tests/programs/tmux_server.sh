#!/bin/sh
# A server that makes itself independent: tmux on a socket of its own, with a pane. Its name holds
# a blank and a colon, and it continues a stopped pane at once. Ends on stdin's end; 77 without tmux.
report=$LASTOUT_TEST_PROGRAMS/report
dir=$(mktemp -d)
tmux -f /dev/null -S "$dir/s" new-session -d -s case "sleep 90" </dev/null || exit 77
"$report" "$(tmux -S "$dir/s" display-message -p '#{pid}')" tmux-server
"$report" "$(tmux -S "$dir/s" list-panes -t case -F '#{pane_pid}')" tmux-pane
"$report" $$ root
cat >/dev/null
rm -rf "$dir"
