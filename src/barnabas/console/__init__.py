"""Pages in a browser that show a cluster and change it, over the Kafka protocol alone.

`application` has the routes, `pages/` one module for each page, `cluster_views/` what pages show of the
cluster, `templates/` and `static/` what a browser gets. Each request borrows a client of its user's
`ClientPool`, so that the cluster's own rules decide what a user may see and do. Nothing of a node imports
this package.
"""
