"""Reads clusters that other programs built and writes draft sites."""
