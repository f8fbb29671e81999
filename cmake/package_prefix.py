"""Print where an installed Python distribution keeps a file.

    package_prefix.py DISTRIBUTION SUFFIX

prints the folder above SUFFIX (for "include/oneapi/dnnl/dnnl.h" the prefix), or nothing when the distribution is not
installed. Asking the distribution's own record works in virtual environments, in --user and dist-packages installs,
and in the temporary overlay in which pip builds.
"""

import importlib.metadata
import sys
from pathlib import Path


def main(distribution: str, suffix: str) -> None:
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return
    for file in files:
        path = Path(str(file.locate())).resolve()
        if path.as_posix().endswith("/" + suffix) and path.exists():
            print(path.as_posix()[: -len(suffix) - 1])
            return


main(*sys.argv[1:])
