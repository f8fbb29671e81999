"""Run the consortium's tests of the array API standard on `pylayout.array_api`.

    git clone --recursive https://github.com/data-apis/array-api-tests
    pip install pytest-json-report 'hypothesis>=6.151' 'ndindex>=1.8'
    python tools/array_api_suite.py array-api-tests -n 2 --max-examples 3

The suite names every dtype of the standard where it is imported. In a copy of it those that the library has not are
placeholders, left out of all tests, and the one expression that needs a complex dtype has a default. Further arguments
are pytest's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
ABSENT = ("int16", "uint16", "uint32", "uint64", "float64", "complex64", "complex128")
MODULE = f"""
from pylayout import array_api

globals().update({{name: getattr(array_api, name) for name in dir(array_api) if not name.startswith("_")}})
__array_api_version__ = array_api.__array_api_version__
__array_namespace_info__ = array_api.__array_namespace_info__


class Absent:
    pass


for _name in {ABSENT}:
    globals()[_name] = Absent()
"""
WIDEST = "for dt in complex_dtypes], key"
WIDEST_OR_NONE = "for dt in complex_dtypes] or [(None, 0)], key"


def main() -> int:
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "array_api_tests").is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        suite = Path(folder) / "suite"
        shutil.copytree(sys.argv[1], suite, ignore=shutil.ignore_patterns(".git"))
        (suite / "pylayout_standard.py").write_text(MODULE, "utf-8")
        helpers = suite / "array_api_tests" / "dtype_helpers.py"
        text = helpers.read_text("utf-8")
        if WIDEST not in text:
            print(f"{helpers.name} of this version of the suite has no {WIDEST!r}", file=sys.stderr)
            return 2
        helpers.write_text(text.replace(WIDEST, WIDEST_OR_NONE), "utf-8")
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(suite), str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "PYLAYOUT_CACHE_DIR": str(Path(folder) / "cache"),
            "ARRAY_API_TESTS_MODULE": "pylayout_standard",
            "ARRAY_API_TESTS_VERSION": "2024.12",
            "ARRAY_API_TESTS_SKIP_DTYPES": ",".join(ABSENT),
        }
        arguments = ["-q", "--disable-deadline", "--continue-on-collection-errors", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", *arguments, "array_api_tests", *sys.argv[2:]]
        return subprocess.run(command, cwd=suite, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
