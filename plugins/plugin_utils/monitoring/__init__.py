"""Prometheus, exporters, alerts, Grafana, and logs."""
