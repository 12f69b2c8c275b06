"""The command line of busbar: drives playbooks, runs the sandbox, reads results."""
