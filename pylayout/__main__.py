"""`python -m pylayout` is `pylayout`, also where scripts are not on the path."""

import sys

from .cli import main

sys.exit(main())
