"""REST, pages and access control over HTTP."""
