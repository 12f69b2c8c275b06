"""What is wrong with an inventory or with its hosts, before anything is changed."""
