/* The header compiles as pedantic C99 and the library answers with the version in pyproject.toml. */
#include <string.h>

#include "check.h"
#include "pylayout.h"

TEST("all") { CHECK(strcmp(pl_version(), PYLAYOUT_VERSION) == 0); }
