// The embedded table holds every file of kernels/, byte for byte, sorted by path.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "check.h"
#include "providers/opencl/program/embedded_kernels.h"

namespace fs = std::filesystem;
using namespace pl::opencl;

namespace {

TEST("all") {
  const fs::path root = fs::path(PYLAYOUT_SOURCE_DIR) / "kernels";
  std::size_t on_disk = 0;
  if (fs::exists(root)) {
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      const fs::path extension = entry.path().extension();
      on_disk += extension == ".cl" || extension == ".clh" || extension == ".tuned";
    }
  }
  CHECK(embedded_file_count == on_disk);
  for (std::size_t i = 0; i < embedded_file_count; ++i) {
    const EmbeddedFile& file = embedded_files[i];
    std::ifstream in(root / file.path, std::ios::binary);
    REQUIRE(in.good());
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    CHECK(text == file.text);
    CHECK(i == 0 || std::strcmp(embedded_files[i - 1].path, file.path) < 0);
  }
  CHECK(embedded_files[embedded_file_count].path == nullptr);
  CHECK(embedded_files[embedded_file_count].text == nullptr);
}

}  // namespace
