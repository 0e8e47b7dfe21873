"""PyTorch: modules exported to ONNX, and ONNX graphs as trainable modules. Torch is imported where it is needed."""
