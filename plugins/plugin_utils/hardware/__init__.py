"""What a machine has: GPUs, NICs, PCI devices, and the programs that tell of them."""
