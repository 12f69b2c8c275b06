"""Answers of hosts, reports of problems, and placeholders in values."""
