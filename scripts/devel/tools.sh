#!/usr/bin/env bash
# Puts .venv first into PATH. The scripts of the checkout source this file.
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/.venv/bin
if [ -d "$tools" ]; then PATH="$tools:$PATH"; fi

# need OPTION NAME…: exits with 2 if a program or Python module is missing. OPTION of scripts/setup installs it.
need() {
    local name missing=()
    for name in "${@:2}"; do
        command -v "$name" >/dev/null || python3 -c "import $name" 2>/dev/null || missing+=("$name")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    echo "scripts/${0##*/}: not installed: ${missing[*]}; run: scripts/setup${1:+ $1}" >&2
    exit 2
}
