"""Parse answers from hosts, report problems, and detect placeholder values."""
