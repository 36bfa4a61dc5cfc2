"""The cluster's metadata: records, the image that they build, and the levels of features."""
