"""ONNX: the hub's own language, as a format of its own."""
