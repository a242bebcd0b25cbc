"""Shipped helpers for tests and demonstrations, such as the replay server. Production never imports this room."""
