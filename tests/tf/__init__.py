"""Models that TensorFlow's own converter makes, and what becomes of them: ``make test-tf``."""
