"""Seeded ONNX models for tests, benchmarks and the quickstart. Start with catalog.py."""
