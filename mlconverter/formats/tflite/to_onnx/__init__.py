"""TFLite to ONNX: one module for each family of operators."""
