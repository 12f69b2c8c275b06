"""Select and check the hosts to uninstall."""
