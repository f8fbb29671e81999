#include "providers/opencl/program/ptx.h"

#include <cstring>

namespace pl::opencl {

std::string with_sm_90a(const std::string& binary) {
  const std::string target = ".target sm_90";
  const size_t length = std::strlen(kSm90aMark);
  size_t mark = binary.find(kSm90aMark);
  const size_t at = binary.find(target);
  if (mark == std::string::npos || at == std::string::npos || at > mark) return {};
  const size_t after = at + target.size();
  if (after >= binary.size() || (binary[after] != ',' && binary[after] != '\n' && binary[after] != ' ')) return {};
  std::string text = binary.substr(0, after) + "a";
  size_t from = after;
  for (; mark != std::string::npos; mark = binary.find(kSm90aMark, from)) {
    text.append(binary, from, mark - from);
    from = mark + length;
  }
  return text.append(binary, from, std::string::npos);
}

}  // namespace pl::opencl
