"""The stages of a validation: their tests, their verdicts, and the culprits they report."""
