"""Caches the bytecode of modules that root imports from zip files, as Python does for plain files.

Ansible sends each module with its libraries as a zip file, which Python compiles each time: two fifths of the run time
of a module, and seconds in an emulated machine. The sandbox and virtual machine images load this file with a .pth file.
Nodes of a site do not have it.
"""

# The replaced function is not part of Python's public interface and has no types.
# mypy: ignore-errors
import _imp
import marshal
import os
import zipimport

FOLDER = "/var/cache/busbar-zip-bytecode"
KEY = int.from_bytes(zipimport._bootstrap_external.MAGIC_NUMBER, "little")
_compile = zipimport._compile_source


def compile_source(pathname, source):
    """Return the code of a file in a zip, from the cache if the same source has already been compiled."""
    inside = pathname.rpartition(".zip/")[2]
    kept = f"{FOLDER}/{_imp.source_hash(KEY, inside.encode() + source).hex()}"
    try:
        with open(kept, "rb") as file:
            return marshal.load(file)
    except (OSError, EOFError, ValueError, TypeError):
        code = _compile(pathname, source)
    new = f"{kept}.{os.getpid()}"
    # A full or read-only disk must not fail the module.
    try:
        os.makedirs(FOLDER, mode=0o700, exist_ok=True)
        with open(new, "wb") as file:
            marshal.dump(code, file)
        os.rename(new, kept)
    except OSError:
        try:
            os.unlink(new)
        except OSError:
            pass
    return code


# Only root can write the folder and root's zip files.
if os.geteuid() == 0:
    zipimport._compile_source = compile_source
