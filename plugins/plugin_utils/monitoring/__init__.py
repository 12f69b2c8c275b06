"""Plans and checks of Prometheus, Alertmanager, Grafana, the exporters and the journal receiver."""
