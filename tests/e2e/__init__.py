"""Suites that use the product as its users do. Start with tessera_e2e.py."""
