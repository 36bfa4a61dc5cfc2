"""A folder below the machine's temporary one that belongs to this user alone, for machine code and the like.

numba's machine code is pickled: a user who can write into the folder can run code in every process
that reads from it. So a folder of that name that another user has made, or could fill, is not used.
"""

from __future__ import annotations

import os
import stat
import tempfile

NAME = "barnabas-numba"


def own_folder(name: str = NAME) -> str | None:
    """This user's folder `name`, made if it is missing; None if it cannot be had."""
    user = os.getuid()
    folder = os.path.join(tempfile.gettempdir(), f"{name}-{user}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError:
        return None
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == user
    return folder if is_own and not found.st_mode & 0o022 else None
