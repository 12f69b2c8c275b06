"""Prints the offset of the first data on a disk, or nothing for a blank disk; exits with 1 if it cannot be read."""

import sys

from ansible_collections.busbar.cluster.plugins.module_utils.storage.blank_disk import data_offset

if __name__ == "__main__":
    try:
        offset = data_offset(sys.argv[1])
    except OSError as exc:
        sys.exit(str(exc))
    if offset is not None:
        sys.stdout.write(f"{offset}\n")
