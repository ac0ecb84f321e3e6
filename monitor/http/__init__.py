"""REST and the page: what people and programs ask over HTTP."""
