"""``python -m barnabas.testing.faulty_node [--format-as CLUSTER] FILE.properties``."""

import sys

from barnabas.host.main import main
from barnabas.testing.faulty_node.program import FaultyNodeProcess

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], FaultyNodeProcess))
