// Packings that come with a kernel for what changes in every run: it makes the same bytes.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "check.h"
#include "core/device.h"
#include "providers/provider.h"

namespace pl::testing {

inline int prepared_packings = 0;  // that were checked

// `in`: a candidate's inputs, before they are packed.
inline void check_prepared_packings(Device& device, const Candidate& candidate, const std::vector<Buffer*>& in,
                                    const std::string& what) {
  for (const Packing& packing : candidate.packings) {
    Buffer* source = in[size_t(packing.input)];
    if (!packing.prepare || !source) continue;
    std::vector<char> made[2];
    for (const bool by_kernel : {false, true}) {
      std::vector<char>& bytes = made[by_kernel];
      bytes.assign(packing.bytes + 64, by_kernel ? 0x5a : 0x7f);
      const std::vector<char> before = bytes;
      const BufferRef packed = device.allocate(bytes.size());
      device.write(*packed, 0, bytes.data(), bytes.size());
      if (by_kernel) {
        Buffer* const target = packed.get();
        packing.prepare()->run({&source, &target, nullptr});
      } else {
        packing.pack(*source, *packed);
      }
      device.read(*packed, 0, bytes.data(), bytes.size());
      for (size_t i = packing.bytes; i < bytes.size(); ++i)
        if (bytes[i] != before[i]) {
          std::fprintf(stderr, "%s: the packing %s wrote behind its end\n", what.c_str(), packing.form.c_str());
          end_test();
        }
      bytes.resize(packing.bytes);
    }
    if (made[0] != made[1]) {
      std::fprintf(stderr, "%s: the kernel of the packing %s makes other bytes\n", what.c_str(), packing.form.c_str());
      end_test();
    }
    ++prepared_packings;
  }
}

}  // namespace pl::testing
