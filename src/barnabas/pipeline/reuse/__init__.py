"""Plans that Spark uses again: frames, views, and tables of SQL."""
