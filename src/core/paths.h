// Where pylayout keeps files between runs.
#pragma once

#include <string>

namespace pl {

// $PYLAYOUT_CACHE_DIR, else $XDG_CACHE_HOME/pylayout, else ~/.cache/pylayout; empty if none of them can be told.
std::string default_cache_dir();

// Where the process keeps what all its contexts share, built programs: the folder that the last context with a
// `cache_dir` named, else default_cache_dir().
std::string shared_cache_dir();
void set_shared_cache_dir(const std::string& path);

// Creates a directory and its parents, private to the user.  False if that is not possible.
bool make_directories(const std::string& path);

}  // namespace pl
