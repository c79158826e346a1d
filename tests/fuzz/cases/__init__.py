"""Cases for fuzzing: chains of random operators, and what they should compute. Start with case.py and table.py."""
