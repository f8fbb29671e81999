// TemporaryFolder: an empty folder that is gone, with what is in it, when the test ends.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "check.h"

namespace pl::testing {

struct TemporaryFolder {
  std::string path = (std::filesystem::temp_directory_path() / "pylayout-test-XXXXXX").string();
  TemporaryFolder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
};

}  // namespace pl::testing
