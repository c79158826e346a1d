"""Suites that kill, starve and mislead the product. Start with fault_service.py."""
