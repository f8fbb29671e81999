#include "pylayout.h"

extern "C" const char* pl_version(void) { return PYLAYOUT_VERSION; }
