"""The report of a validation: its data, its page, its metrics, and earlier reports."""
