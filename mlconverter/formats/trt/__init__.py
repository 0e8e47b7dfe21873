"""TensorRT: engines are built from the hub, and what is kept beside an engine leads back. Parts of it need torch alone."""
