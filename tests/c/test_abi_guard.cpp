// The boundary from the inside: each exception becomes its status and this thread's message; handles stay distinct
// over many slots and generations.
#include <cstring>
#include <new>
#include <set>
#include <stdexcept>
#include <string>

#include "abi/guard.h"
#include "abi/handles.h"
#include "check.h"

using namespace pl;
using namespace pl::abi;

namespace {

template <class Throw>
void expect(pl_status status, const std::string& text, Throw thrower) {
  CHECK(guarded(thrower) == status);
  CHECK(std::string(pl_last_error()).find(text) != std::string::npos);
}

TEST("statuses") {
  for (int code = 1; code <= 8; ++code)
    expect(pl_status(code), "message " + std::to_string(code),
           [&] { throw Error(Code(code), "message " + std::to_string(code)); });
  expect(PL_ERROR_OUT_OF_MEMORY, "memory", [] { throw std::bad_alloc(); });
  expect(PL_ERROR_INTERNAL, "strange", [] { throw std::logic_error("strange"); });
  expect(PL_ERROR_INTERNAL, "unknown type", [] { throw 5; });
  expect(PL_ERROR_INTERNAL, "", [] { throw Error(Code::ok, "an error that says it is none"); });
  CHECK(guarded([] {}) == PL_OK);
  CHECK(std::strcmp(pl_last_error(), "an error that says it is none") == 0);  // kept until the next failure
  // Cut before a character that does not fit whole: 4095 bytes of room, characters of two bytes from an odd place.
  std::string wide = "x";
  while (wide.size() < 5000) wide += "\xc3\xa9";
  expect(PL_ERROR_IO, "x\xc3\xa9", [&] { throw Error(Code::io, wide); });
  CHECK(std::strlen(pl_last_error()) == 4095);
  expect(PL_ERROR_IO, "y", [&] { throw Error(Code::io, "y" + wide); });
  CHECK(std::strlen(pl_last_error()) == 4094);
}

TEST("handle_table") {
  HandleTable<std::shared_ptr<int>> table(9, "number");
  const auto copy = [](const std::shared_ptr<int>& value) { return value; };
  std::set<uintptr_t> seen;
  std::vector<uintptr_t> live;
  for (int i = 0; i < 5000; ++i) {  // several chunks
    live.push_back(table.add(std::make_shared<int>(i)));
    CHECK(seen.insert(live.back()).second);
  }
  for (int i = 0; i < 5000; ++i) CHECK(*table.read(live[size_t(i)], "f", "a", copy) == i);
  for (int i = 0; i < 5000; i += 2) CHECK(*table.remove(live[size_t(i)], "f", "a") == i);
  for (int i = 0; i < 2500; ++i) CHECK(seen.insert(table.add(std::make_shared<int>(-i))).second);
  for (int i = 0; i < 5000; ++i) {
    bool refused = false;
    try {
      CHECK(*table.read(live[size_t(i)], "f", "a", copy) == i);
    } catch (const Error& error) {
      refused = true;
      CHECK(error.code() == Code::invalid_argument);
    }
    CHECK(refused == (i % 2 == 0));
  }
  // The value goes when its handle does, not later.
  auto value = std::make_shared<int>(7);
  const uintptr_t handle = table.add(value);
  CHECK(value.use_count() == 2);
  table.update(handle, "f", "a", [&](const std::shared_ptr<int>& old) { return std::make_shared<int>(*old + 1); });
  CHECK(value.use_count() == 1);
  CHECK(*table.remove(handle, "f", "a") == 8);
}

}  // namespace
