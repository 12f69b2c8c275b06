# shellcheck shell=bash
# `ssh HOST COMMAND` starts a non-login shell, which neither reads /etc/profile.d nor inherits the exported function.
if ! declare -F module >/dev/null; then
  for __busbar_file in /etc/profile.d/lmod.sh /etc/profile.d/zz-busbar-modules.sh; do
    [ ! -r "$__busbar_file" ] || . "$__busbar_file" >/dev/null 2>&1
  done
  unset __busbar_file
fi
