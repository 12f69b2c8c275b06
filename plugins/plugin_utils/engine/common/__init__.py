"""Text and number helpers shared by several packages of the engine."""
