"""Plan and check the configuration of Prometheus and Alertmanager, and the counters of dcgm-exporter."""
