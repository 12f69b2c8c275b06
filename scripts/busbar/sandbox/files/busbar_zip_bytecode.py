"""Keeps the bytecode of what root imports from zip files, as Python itself does for plain files.

Ansible sends each module with its libraries as one zip file, and Python compiles them anew each time: two fifths of
what a module costs, and seconds of it in an emulated machine. The images of the sandbox and of the virtual machines
load this by a file of their own beside it. Nodes of a site never have it.
"""

# What it replaces is no part of Python's public interface, so there are no types.
# mypy: ignore-errors
import _imp
import marshal
import os
import zipimport

FOLDER = "/var/cache/busbar-zip-bytecode"
KEY = int.from_bytes(zipimport._bootstrap_external.MAGIC_NUMBER, "little")
_compile = zipimport._compile_source


def compile_source(pathname, source):
    """Return the code of one file of a zip; from the folder where the same source was compiled before."""
    inside = pathname.rpartition(".zip/")[2]
    kept = f"{FOLDER}/{_imp.source_hash(KEY, inside.encode() + source).hex()}"
    try:
        with open(kept, "rb") as file:
            return marshal.load(file)
    except (OSError, EOFError, ValueError, TypeError):
        code = _compile(pathname, source)
    new = f"{kept}.{os.getpid()}"
    # A full or read-only disk is no reason for a module to fail.
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


# Others can write neither the folder nor root's zip files.
if os.geteuid() == 0:
    zipimport._compile_source = compile_source
