// Where pylayout keeps files between runs.
#pragma once

#include <string>

namespace pl {

// $PYLAYOUT_CACHE_DIR, else $XDG_CACHE_HOME/pylayout, else ~/.cache/pylayout; empty if none of them can be told.
std::string default_cache_dir();

// Creates a directory and its parents, private to the user.  False if that is not possible.
bool make_directories(const std::string& path);

}  // namespace pl
