"""The page that people look at: static files, and how they become an answer of the service or one file without it."""
