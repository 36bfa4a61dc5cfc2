"""What the cluster knows: metadata records, the image they build, and their levels of features."""
