"""Images of compute nodes, and the signed bundles from which nodes that booted them configure themselves."""
