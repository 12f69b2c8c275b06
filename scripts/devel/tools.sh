#!/usr/bin/env bash
# Sourced by the scripts of the checkout: puts .venv first into PATH.
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/.venv/bin
if [ -d "$tools" ]; then PATH="$tools:$PATH"; fi

# need OPTION NAME…: exits if a program or Python module is missing, and prints the scripts/setup call that installs it.
need() {
    local name missing=()
    for name in "${@:2}"; do
        command -v "$name" >/dev/null || python3 -c "import $name" 2>/dev/null || missing+=("$name")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    echo "scripts/${0##*/}: not installed: ${missing[*]}; run: scripts/setup${1:+ $1}" >&2
    exit 2
}
