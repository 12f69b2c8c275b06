"""Parse answers of hosts, report problems, and detect placeholder values."""
