"""Module files of Lmod, and checks of the options of Pyxis."""
