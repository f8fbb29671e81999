// Single units of a buffer, set and gathered: what every kind of device must do alike.
#pragma once

#include <cstring>
#include <vector>

#include "check.h"
#include "core/device.h"

namespace pltest {

inline void check_places(pl::Device& device) {
  constexpr size_t kBytes = 4096;
  for (size_t unit : {1, 2, 4, 8}) {
    std::vector<unsigned char> bytes(kBytes);
    for (size_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<unsigned char>(i * 7 % 251);
    const pl::BufferRef buffer = device.allocate(kBytes);
    device.write(*buffer, 0, bytes.data(), kBytes);
    std::vector<size_t> offsets;  // more than one launch takes, in no order, one of them twice
    for (size_t i = 0; i < 150; ++i) offsets.push_back((i * 97 + 5) % (kBytes / unit) * unit);
    offsets.push_back(offsets.front());
    const size_t gathered_bytes = offsets.size() * unit, before = 3 * unit;
    const pl::BufferRef gathered = device.allocate(before + gathered_bytes);
    device.gather_places(*buffer, offsets, unit, *gathered, before);
    std::vector<unsigned char> read(gathered_bytes);
    device.read(*gathered, before, read.data(), gathered_bytes);
    for (size_t i = 0; i < offsets.size(); ++i) CHECK(!std::memcmp(&read[i * unit], &bytes[offsets[i]], unit));

    device.set_places(*buffer, offsets, unit);
    for (size_t offset : offsets) std::memset(&bytes[offset], 0xff, unit);
    std::vector<unsigned char> all(kBytes);
    device.read(*buffer, 0, all.data(), kBytes);
    CHECK(all == bytes);

    device.gather_places(*buffer, {}, unit, *gathered, 0);  // none
    device.set_places(*buffer, {}, unit);
  }
}

}  // namespace pltest
