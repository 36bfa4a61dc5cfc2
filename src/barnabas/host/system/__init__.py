"""The differences between operating systems. No other package uses what only one system has.

Each module has a portable way, and where a system has a better one it takes that.
``BARNABAS_SYSTEM=portable`` takes the portable way everywhere, so that one machine can try both.
``BARNABAS_POLLER`` chooses the poller.

=================  =======================  ==========================  ================================
what               Linux                    macOS, BSD                  portable
=================  =======================  ==========================  ================================
wait for events    epoll                    kqueue                      poll
wake a loop        eventfd                  pipe                        pipe
end of a process   pidfd                    kqueue's EVFILT_PROC        a thread that looks, and ps
end with a parent  PR_SET_PDEATHSIG         a thread waits for its end  a thread waits for its end
durable content    fdatasync                F_FULLFSYNC                 fsync
read from memory   RWF_NOWAIT               a read that may block       a read that may block
lock a folder      fcntl's and flock's      fcntl's                     fcntl's
unnamed file       memfd                    a private file, removed     a private file, removed
allocator          glibc's mallopt          left alone                  left alone
figures            /proc                    getrusage                   getrusage
=================  =======================  ==========================  ================================
"""

from __future__ import annotations

import os
import sys

IS_PORTABLE = os.environ.get("BARNABAS_SYSTEM") == "portable"
"""Whether the portable way is taken although the system may have a better one."""
IS_LINUX = sys.platform == "linux" and not IS_PORTABLE
PARENT = "BARNABAS_PARENT_PID"
"""The variable that names the process with which an executed child ends, if the kernel cannot end
it."""
