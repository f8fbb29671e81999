"""`python -m pylayout.cli` is `pylayout`."""

import sys

from . import main

sys.exit(main())
