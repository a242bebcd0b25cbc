"""Sockets to bytes: the HTTP client, its retries, and the stand-ins that need no network."""
