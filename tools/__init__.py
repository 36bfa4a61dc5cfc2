"""What the project needs beside itself: generators of code and documents, peers, the demo."""
