"""What `busbar security` finds on hosts, and how it is shown."""
