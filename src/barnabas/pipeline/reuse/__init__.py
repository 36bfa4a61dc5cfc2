"""What Spark keeps and uses again: frames, views, and tables of SQL."""
