"""The Grafana dashboards, as code. ``python -m deploy.dashboards`` writes them to helm/dashboards.

Built with Grafana's own typed builders, so that an option that a panel does not have is an error here, and not a panel
that looks wrong. What is written is the JSON of Grafana 11.6, which later versions read too.
"""
