"""GPUs, NICs and PCI devices of a host, and the output of the programs that report them."""
