"""The words of Sluice: frozen structs and protocols, with no behaviour but merging and equality.

Every other room speaks in these; nothing here imports another room but `limits` and `errors`.
"""
