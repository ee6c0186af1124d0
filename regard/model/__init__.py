"""The paper: tensors in, tensors out."""
