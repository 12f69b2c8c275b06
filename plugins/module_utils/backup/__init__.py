"""The backup program: collect, verify, restore."""
