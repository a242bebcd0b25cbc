"""The terminal face: what a person works in. Built on Textual, which nothing outside this folder imports."""
