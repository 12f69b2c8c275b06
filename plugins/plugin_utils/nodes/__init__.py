"""What a site knows of its nodes: their dossier, their score, and the machines behind their names."""
