#!/bin/sh
# Neither environment nor name say who started a tool: one runs with an empty environment under a
# name like a kernel thread's, one keeps both. Ends on stdin's end.
report=$LASTOUT_TEST_PROGRAMS/report
dir=$(mktemp -d)
cp "$(command -v sleep)" "$dir/[kworker]"
env -i setsid "$dir/[kworker]" 90 </dev/null >/dev/null 2>&1 &
"$report" $! scrubbed
setsid sleep 90 </dev/null >/dev/null 2>&1 &
"$report" $! tagged
"$report" $$ root
cat >/dev/null
rm -rf "$dir"
