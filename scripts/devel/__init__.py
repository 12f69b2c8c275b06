"""What the developers of busbar use and nobody installs: documentation, checks of texts, skeletons."""
