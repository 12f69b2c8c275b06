"""What `busbar doctor` looks at on the provisioning host and in the inventory, and how it is shown."""
