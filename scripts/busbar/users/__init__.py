"""Users of a site: requested changes, and the files that declare users."""
