"""Users of a site: what is asked for, and the files that declare them."""
