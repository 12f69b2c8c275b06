"""Grafana's dashboards as code: one module per dashboard, `scripts/dashboards` writes them as JSON.

They need grafana-foundation-sdk, which comes with the tests' tools: who only uses busbar reads the committed JSON.
"""
