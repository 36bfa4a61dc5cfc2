"""The port to ZooKeeper on the real machine, over kazoo. Imported when a session is opened."""
