"""Node dossiers, lemon scores, and detection of replaced machines."""
