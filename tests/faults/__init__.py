"""Killing, starving and misleading the product. Start with fault_service.py."""
