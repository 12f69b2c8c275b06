"""The command line of busbar: runs playbooks, manages the sandbox, reads results."""
