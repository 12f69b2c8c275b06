"""Module files of Lmod."""
