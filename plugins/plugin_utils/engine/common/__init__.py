"""Text and numbers that several packages of the engine use."""
