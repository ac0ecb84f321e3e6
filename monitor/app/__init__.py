"""The one place where concrete parts meet: settings become a running service."""
