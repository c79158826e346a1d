"""ONNX backend tests through the product."""
