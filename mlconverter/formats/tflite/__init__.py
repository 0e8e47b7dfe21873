"""TFLite (LiteRT): reading its files, running them, and the way to ONNX and back."""
