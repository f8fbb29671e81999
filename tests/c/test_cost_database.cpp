// The cost database: survives damage, torn lines, other writers and kills; misleads nobody.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "check.h"
#include "dispatch/cost_database.h"
#include "temporary_folder.h"

namespace fs = std::filesystem;
using pl::CostDatabase;

namespace {

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST("keeps_records_between_processes") {
  const pl::testing::TemporaryFolder folder;
  const std::string& directory = folder.path;
  {
    CostDatabase costs(directory);
    CHECK(!costs.find("env", "op", "way"));
    costs.record("env", "op", "way", 1.25);
    costs.record("env", "op", "way", 2.5);  // a later record replaces an earlier one
    costs.record("other env", "op", "way", 7);
  }
  CostDatabase again(directory);
  CHECK(again.find("env", "op", "way") == 2.5);
  CHECK(again.find("other env", "op", "way") == 7.0);
  CHECK(!again.find("third env", "op", "way"));  // costs of other circumstances are not used
  CHECK(again.status().records == 2);
  CHECK(again.status().environments == 2);
  CHECK(again.count({"env", "third env"}) == 1);
  CHECK(again.status().damaged == 0);
  again.clear();
  CHECK(!again.find("env", "op", "way"));
  CHECK(CostDatabase(directory).status().records == 0);
}

TEST("every_damaged_byte_costs_at_most_one_record") {
  const pl::testing::TemporaryFolder folder;
  const std::string& directory = folder.path;
  {
    CostDatabase costs(directory);
    for (int i = 0; i < 3; ++i) costs.record("e", "op" + std::to_string(i), "w", i + 1);
  }
  const fs::path path = CostDatabase(directory).status().path;
  const std::string whole = read_file(path);
  for (size_t at = 0; at < whole.size(); ++at) {
    for (char value : {'\0', '\n', '\t', '9', char(whole[at] ^ 1)}) {
      std::string text = whole;
      text[at] = value;
      std::ofstream(path, std::ios::binary) << text;
      CostDatabase costs(directory);
      int right = 0;
      for (int i = 0; i < 3; ++i) {
        const auto ms = costs.find("e", "op" + std::to_string(i), "w");
        CHECK(!ms || *ms == i + 1);  // a wrong time is never believed
        right += ms.has_value();
      }
      CHECK(right >= (whole[at] == '\n' ? 1 : 2));  // a lost newline joins two records
    }
  }
  // Any prefix (a disk that filled, a kill): the whole lines count, and the next record is not spoilt.
  for (size_t length = 0; length < whole.size(); ++length) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, length);
    { CostDatabase(directory).record("e", "new", "w", 42); }
    CostDatabase costs(directory);
    CHECK(costs.find("e", "new", "w") == 42.0);
    for (int i = 0; i < 3; ++i) {
      const auto ms = costs.find("e", "op" + std::to_string(i), "w");
      CHECK(!ms || *ms == i + 1);
    }
  }
}

TEST("processes_write_at_once_and_are_killed") {
  const pl::testing::TemporaryFolder folder;
  const std::string& directory = folder.path;
  constexpr int kWriters = 4, kRecords = 200;
  std::vector<pid_t> writers;
  for (int w = 0; w < kWriters; ++w) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      CostDatabase costs(directory);
      for (int i = 0; i < kRecords; ++i) costs.record("e", std::to_string(w) + "/" + std::to_string(i), "w", i);
      _exit(0);
    }
    writers.push_back(child);
  }
  const pid_t victim = fork();  // writes for ever, and is killed in the middle
  REQUIRE(victim >= 0);
  if (victim == 0) {
    CostDatabase costs(directory);
    for (int i = 0;; ++i) costs.record("victim", std::string(2000, 'x') + std::to_string(i), "w", i);
  }
  for (pid_t writer : writers) {
    int state = 0;
    REQUIRE(waitpid(writer, &state, 0) == writer);
    CHECK(state == 0);
  }
  CHECK(kill(victim, SIGKILL) == 0);
  REQUIRE(waitpid(victim, nullptr, 0) == victim);
  CostDatabase costs(directory);
  for (int w = 0; w < kWriters; ++w)
    for (int i = 0; i < kRecords; ++i)
      CHECK(costs.find("e", std::to_string(w) + "/" + std::to_string(i), "w") == double(i));
  CHECK(costs.status().damaged <= 1);
}

TEST("works_without_a_place_to_write") {
  CostDatabase nowhere("");
  nowhere.record("e", "op", "w", 3);
  CHECK(nowhere.find("e", "op", "w") == 3.0);
  CHECK(!nowhere.status().writable);
  CostDatabase forbidden("/proc/no-such-place");
  forbidden.record("e", "op", "w", 3);
  CHECK(forbidden.find("e", "op", "w") == 3.0);
  CHECK(!forbidden.status().writable);
}

}  // namespace
