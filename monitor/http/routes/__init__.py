"""The routes: each file declares a ``router``, and is found by scanning this folder."""
