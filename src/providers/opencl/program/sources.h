// Kernel files: the embedded sources, with their #include lines resolved.
#pragma once

#include <string>
#include <string_view>

namespace pl::opencl {

// The embedded file kernels/<path>, or null.
const char* find_embedded(std::string_view path);

// The text of kernels/<path> with each `#include "x"` (relative to kernels/) replaced by that file, every file
// once at most.  #line directives keep the file names and line numbers of build logs true.
// Throws Error(internal) that names the file if it, or one it includes, does not exist.
std::string expand_source(const std::string& path);

// The same for a text that is not a file; `name` stands for it in build logs.
std::string expand_includes(const std::string& name, std::string_view text);

}  // namespace pl::opencl
