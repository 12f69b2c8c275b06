"""The stages of a validation: their tests, how they are judged, and whom they blame."""
