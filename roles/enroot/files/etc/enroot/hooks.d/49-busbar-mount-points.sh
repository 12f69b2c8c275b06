#!/bin/bash
# Enroot hook that runs before 50-slurm-pmi.sh and creates the container's mount points: for Slurm's PMIx server, the
# site's mounts and the user's mounts. Enroot would create them with mode 0000, to omit them when it exports the
# container. But find of findutils 4.10 (Debian 13) cannot read such directories and exits with 1, which makes
# --container-save fail. The hook also sets the modification time of the container's directory, which records the last
# start.
set -uo pipefail
umask 022
root=${ENROOT_ROOTFS:-}
[ -d "$root" ] || exit 0
touch -c "$root"

# Create nothing through links that lead out of the image; Enroot handles them.
make() {
    local place
    place=$(realpath -m -- "$root/$1") || return
    [[ $place == "$(realpath -- "$root")"/* ]] && mkdir -p -- "$place"
}

# Read fstab lines as enroot-mount does; \040 is a space.
of_lines() {
    local source target kind options
    while read -r source target kind options _; do
        # The type may be missing.
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
# CONFIG ROOTFS RC CONFIG MOUNTS … . The function `mounts` in CONFIG prints the mounts that Pyxis adds.
mapfile -d '' -t words <"/proc/$PPID/cmdline" 2>/dev/null || exit 0
for ((at = 0; at < ${#words[@]}; at++)); do
    [ "${words[at]}" = 'runtime::_start "$@"' ] || continue
    config=${words[at + 1]:-}
    if [ -f "$config" ] && [ -O "$config" ]; then
        # shellcheck disable=SC2016 # lines with shell expansions are left to Enroot
        grep -oE '^[[:space:]]*echo "/[^"$`\\]*(\\040[^"$`\\]*)*"$' "$config" | sed 's/^[[:space:]]*echo "//; s/"$//' | of_lines
    fi
    while IFS=: read -r source target options; do
        [ -z "$source" ] || printf '%s %s none %s\n' "$source" "${target:-$source}" "${options:-x-create=auto}" | of_lines
    done <<<"${words[at + 5]:-}"
    break
done
exit 0
