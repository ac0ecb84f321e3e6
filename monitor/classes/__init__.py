"""Many classes: tables of probability vectors, and the measures of them."""
