// Small files that survive crashes and concurrent writers: caches and databases.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pl {

// The directory for cached files of one kind ("programs") below shared_cache_dir(), created if it is missing.
// Empty if it cannot be created: then nothing is cached on disk.
std::string cache_directory(std::string_view kind);

std::optional<std::string> read_file(const std::string& path);  // nothing if it cannot be read: errno says why

// Writes a temporary file beside `path` and renames it: a reader sees the old bytes or the new, never a part,
// whatever happens to the writer.  Links are followed.  Returns false (and leaves `path` as it was) if that fails, or
// if something else than a file is there: errno says why.
bool write_file_atomically(const std::string& path, std::string_view bytes);

// Removes the files in a directory, temporary ones too; not what lies in directories below.
void remove_files(const std::string& directory);

// Removes temporary files that writers killed in mid-write left in `directory` more than an hour ago.
void remove_stale_temporaries(const std::string& directory);

uint64_t checksum(std::string_view bytes, uint64_t seed = 0);  // 64 bits; detects damage, not malice
std::string hex(uint64_t value);                               // 16 digits

}  // namespace pl
