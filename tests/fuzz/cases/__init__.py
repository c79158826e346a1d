"""Cases for fuzzing: chains of random operators with their expected results. Start with case.py and table.py."""
