#!/bin/sh
# Installs the real agents that these tests run offline, at the versions that they were written against, into DIR
# (default: build/agents in the project). About 1 GB and half a minute; needs npm, and Node 20 or newer for the ACP
# adapter. The versions are named because npm on an old Node would pick an old Claude Code by itself, although its
# program is native and needs no Node at all.
#
#   tests/agents/install.sh [DIR]
#
# The tests look in $LASTOUT_TEST_AGENTS, then in build/agents, and skip what is not there.
set -eu
dir=${1:-$(cd "$(dirname "$0")/../.." && pwd)/build/agents}
mkdir -p "$dir"
cd "$dir"
[ -f package.json ] || echo '{"name":"agents-under-test","private":true}' >package.json
npm install --no-audit --no-fund --loglevel=error \
    @openai/codex@0.171.0 \
    @anthropic-ai/claude-code@2.1.332 \
    @agentclientprotocol/claude-agent-acp@0.49.0
