"""Checks of the options of the driver, CUDA and DCGM."""
