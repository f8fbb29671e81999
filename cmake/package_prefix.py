"""Print where an installed Python distribution keeps a file.

    package_prefix.py DISTRIBUTION SUFFIX

prints the folder above SUFFIX (for "include/oneapi/dnnl/dnnl.h" the prefix), or nothing when the distribution is not
installed. Asking the distribution's own record works in virtual environments, in --user and dist-packages installs,
and in the temporary overlay in which pip builds.
"""

import importlib.metadata
import os
import sys


def main(distribution: str, suffix: str) -> None:
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return
    for file in files:
        path = os.path.realpath(str(file.locate()))
        if path.endswith(os.sep + suffix) and os.path.exists(path):
            print(path[: -len(suffix) - 1])
            return


main(*sys.argv[1:])
