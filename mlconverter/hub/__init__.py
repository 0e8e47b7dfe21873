"""The hub: every format reaches ONNX and leaves it. Graphs are ``onnx_ir``; protobufs exist only at the public border."""
