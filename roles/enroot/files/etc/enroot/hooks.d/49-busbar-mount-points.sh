#!/bin/bash
# A hook of Enroot, before 50-slurm-pmi.sh: makes the directories that the container has something mounted on, for Slurm's
# PMIx server, for the site's mounts and the user's own. Enroot makes them with mode 0000, to leave them out when it exports the
# container; find of findutils 4.10 (Debian 13) may not look into them and ends with 1, and with it --container-save.
# It also notes when the container was last started, in the time of its directory.
set -uo pipefail
umask 022
root=${ENROOT_ROOTFS:-}
[ -d "$root" ] || exit 0
touch -c "$root"

# A link in the image may lead out of it: then Enroot may do it.
make() {
    local place
    place=$(realpath -m -- "$root/$1") || return
    [[ $place == "$(realpath -- "$root")"/* ]] && mkdir -p -- "$place"
}

# Lines of fstab, as enroot-mount reads them; 040 is a space.
of_lines() {
    local source target kind options
    while read -r source target kind options _; do
        # The type may be left out.
        [[ $kind == *x-create* ]] && options=$kind
        source=$(printf '%b' "${source//\\040/ }")
        target=$(printf '%b' "${target//\\040/ }")
        [[ $target == /* ]] || target=$source
        case $options in
        *x-create=file*) ;;
        *x-create=dir* | *x-create=auto*) [ ! -d "$source" ] || make "$target" ;;
        esac
    done
}

site=${ENROOT_SYSCONF_PATH:-/etc/enroot}/mounts.d/80-busbar.fstab
[ ! -r "$site" ] || of_lines < <(grep -v '^#' "$site")
[ -z "${PMIX_SERVER_TMPDIR:-}" ] || make "$PMIX_SERVER_TMPDIR"

# Enroot 4.1.2 (runtime.sh, runtime::start) calls itself in the container's namespaces: … -c 'runtime::_start "$@"'
# CONFIG ROOTFS RC CONFIG MOUNTS … . The function `mounts` in CONFIG prints the mounts of Pyxis.
mapfile -d '' -t words <"/proc/$PPID/cmdline" 2>/dev/null || exit 0
for ((at = 0; at < ${#words[@]}; at++)); do
    [ "${words[at]}" = 'runtime::_start "$@"' ] || continue
    config=${words[at + 1]:-}
    if [ -f "$config" ] && [ -O "$config" ]; then
        # shellcheck disable=SC2016 # what a shell would work out is left to Enroot
        grep -oE '^[[:space:]]*echo "/[^"$`\\]*(\\040[^"$`\\]*)*"$' "$config" | sed 's/^[[:space:]]*echo "//; s/"$//' | of_lines
    fi
    while IFS=: read -r source target options; do
        [ -z "$source" ] || printf '%s %s none %s\n' "$source" "${target:-$source}" "${options:-x-create=auto}" | of_lines
    done <<<"${words[at + 5]:-}"
    break
done
exit 0
