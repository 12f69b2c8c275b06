"""The checks of `busbar doctor` on the provisioning host and in the inventory, and the output of its findings."""
