"""ONNX Runtime, the reference. Start with oracle.py."""
