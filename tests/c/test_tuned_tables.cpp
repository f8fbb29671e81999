// Tables of tuned values: the shipped ones are understood and reach the devices they are for; damaged ones are named.
#include <filesystem>
#include <fstream>
#include <random>

#include "opencl_candidates.h"
#include "providers/opencl/program/embedded_kernels.h"
#include "providers/opencl/tuning/tuned_table.h"
#include "temporary_folder.h"

using namespace pl;
using namespace pl::testing;
using opencl::Capabilities;
using opencl::Family;
using opencl::parse_tuned;
using opencl::Point;
using opencl::ShapeClass;

namespace {

const Family& family(const std::string& name) {
  for (const Family* each : Family::all())
    if (each->name() == name) return *each;
  std::fprintf(stderr, "there is no family %s\n", name.c_str());
  end_test();
}

void check_shipped() {
  size_t tables = 0;
  for (size_t i = 0; i < opencl::embedded_file_count; ++i) {
    if (!opencl::is_tuned_table(opencl::embedded_files[i].path)) continue;
    ++tables;
    std::vector<std::string> problems;
    const auto entries = parse_tuned(opencl::embedded_files[i].path, opencl::embedded_files[i].text, problems);
    for (const std::string& problem : problems) std::fprintf(stderr, "%s\n", problem.c_str());
    CHECK(problems.empty());
    REQUIRE(!entries.empty());
    for (const opencl::TunedEntry& entry : entries) CHECK(family(entry.family).contains(entry.point));
  }
  CHECK(tables >= 4);
}

void check_parsing() {
  std::vector<std::string> problems;
  const std::string line = "conv_fwd_local f32 window-channels rows=2^12 columns=2^6 terms=2^9: TILE_X=8";
  CHECK(parse_tuned("t", "device a b\n" + line + " # why\n", problems).size() == 1);
  CHECK(problems.empty());
  CHECK(parse_tuned("t", "device a\tb \r\n" + line + "\r\n", problems)[0].device == "a b");
  CHECK(problems.empty());
  CHECK(parse_tuned("t", line, problems).empty());
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].find("t:1: there is no `device` line") == 0);
  for (const char* wrong : {
           "conv_fwd_local f32 window rows=2^12 columns=2^6: TILE_X=8",
           "conv_fwd_local f32 window",
           "conv_fwd_local f99 window rows=2^1 columns=2^6 terms=2^9: TILE_X=8",
           "conv_fwd_local f32 window rows=2^-1 columns=2^6 terms=2^9: TILE_X=8",
           "conv_fwd_local f32 window rows=2^99999999999999999999 columns=2^6 terms=2^9: TILE_X=8",
           "conv_fwd_local f32 window rows=2^1x columns=2^6 terms=2^9: TILE_X=8",
           "conv_fwd_local f32 window rows=2^1 columns=2^6 terms=2^9: TILE_X",
           "\x01\xff\xfe:::===",
           "conv_fwd_local f32 window rows=2^1 columns=2^6 terms=2^9: TILE_X=8y",
           "device",
       }) {
    problems.clear();
    CHECK(parse_tuned("t", std::string("device a\n") + wrong, problems).empty());
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].find("t:2: ") == 0);
  }
  // Nothing that a file holds does more than that; few of its lines are named, in letters that can be printed.
  std::mt19937 engine(1);
  for (int i = 0; i < 200; ++i) {
    std::string text = "device a\n";
    for (int c = 0; c < 2000; ++c) text += char(engine() % (i % 2 ? 256 : 96) + (i % 2 ? 0 : 10));
    problems.clear();
    parse_tuned("t", text, problems);
    CHECK(problems.size() <= 6);
    for (const std::string& problem : problems)
      for (char c : problem) {
        CHECK(c >= ' ');
        CHECK(c <= '~');
      }
  }

  // A named class is nearer than one that is left open, that than nothing.
  const auto entry = [&](const std::string& where) {
    problems.clear();
    const auto parsed = parse_tuned("t", "device a\nf " + where + ": T=1", problems);
    CHECK(problems.empty());
    REQUIRE(parsed.size() == 1);
    return parsed[0];
  };
  const ShapeClass wanted(DType::f32, "window", 4096, 64, 512);
  const auto exact = entry("f32 window rows=2^12 columns=2^6 terms=2^9").distance(wanted),
             near = entry("f32 window rows=2^13 columns=2^6 terms=2^6").distance(wanted),
             open = entry("f32 window rows=* columns=2^6 terms=2^9").distance(wanted),
             all = entry("* * rows=* columns=* terms=*").distance(wanted);
  CHECK(exact == 0);
  CHECK(near == 4);
  REQUIRE(open);
  CHECK(*open > *near);
  REQUIRE(all);
  CHECK(*all > *near);
  CHECK(!entry("f32 window rows=2^14 columns=2^6 terms=2^6").distance(wanted));
  CHECK(!entry("f16 * rows=* columns=* terms=*").distance(wanted));
  CHECK(!entry("* pointwise rows=* columns=* terms=*").distance(wanted));
  CHECK(!entry("* * rows=* columns=2^12 terms=*").distance(wanted));
}

Capabilities gpu(const char* vendor, const char* name) {
  Capabilities can;
  can.vendor = vendor;
  can.name = name;
  can.gpu = true;
  return can;
}

void check_devices(opencl::OpenclDevice& device) {
  const ShapeClass shapes(DType::f16, "window-channels", 3136, 64, 576);
  const auto at = [&](const Capabilities& can, const char* name = "conv_fwd_local") {
    device.pretend(can);
    return opencl::tuned_point(family(name), device, shapes);
  };
  const std::pair<Capabilities, const char*> devices[] = {
      {gpu("Advanced Micro Devices, Inc.", "gfx90a:sramecc+:xnack-"),
       "LOCAL_X=16 LOCAL_Y=16 TILE_X=8 TILE_Y=8 TILE_K=8"},
      {gpu("Advanced Micro Devices, Inc.", "gfx1100"), "LOCAL_X=16 LOCAL_Y=8 TILE_X=8 TILE_Y=8 TILE_K=8"},
      {gpu("Intel(R) Corporation", "Intel(R) Arc(TM) A770 Graphics"),
       "LOCAL_X=16 LOCAL_Y=8 TILE_X=4 TILE_Y=8 TILE_K=8"},
      {gpu("ARM", "Mali-G78 r0p1"), "LOCAL_X=8 LOCAL_Y=8 TILE_X=4 TILE_Y=4 TILE_K=8"},
      {gpu("QUALCOMM", "QUALCOMM Adreno(TM) 740"), "LOCAL_X=16 LOCAL_Y=8 TILE_X=4 TILE_Y=4 TILE_K=8"},
      {gpu("Imagination Technologies", "PowerVR B-Series BXM-8-256"), "LOCAL_X=8 LOCAL_Y=8 TILE_X=4 TILE_Y=4 TILE_K=8"},
  };
  for (const auto& [can, values] : devices)
    for (const char* name : {"conv_fwd_local", "matmul_local"}) {
      const auto point = at(can, name);
      REQUIRE(point);
      CHECK(point->text() == values);
    }
  CHECK(!at(gpu("Somebody", "Graphics 1")));
  // What was measured on one device is for that device, and for the dtype that was measured.
  const Capabilities h200 = gpu("NVIDIA Corporation", "NVIDIA H200");
  CHECK(!at(h200));
  device.pretend(h200);
  const auto first =
      opencl::tuned_point(family("conv_fwd_local"), device, ShapeClass(DType::f32, "window-columns", 200704, 64, 147));
  REQUIRE(first);
  CHECK(first->text() == "LOCAL_X=32 LOCAL_Y=8 TILE_X=4 TILE_Y=8 TILE_K=4");
  device.pretend(gpu("NVIDIA Corporation", "NVIDIA A100"));
  CHECK(!opencl::tuned_point(family("conv_fwd_local"), device,
                             ShapeClass(DType::f32, "window-columns", 200704, 64, 147)));
}

TEST("shipped") { check_shipped(); }
TEST("parsing") { check_parsing(); }

TEST("of_the_user") {
  // A user's own table wins over the shipped one; what it says wrongly is named.
  const testing::TemporaryFolder temporary;
  const std::string& folder = temporary.path;
  setenv("PYLAYOUT_CACHE_DIR", folder.c_str(), 1);
  std::filesystem::create_directories(folder + "/tuned/folder.tuned");
  std::ofstream(folder + "/tuned/own.tuned")
      << "device Intel Own\nconv_fwd_local * * rows=* columns=* terms=*: LOCAL_X=8 LOCAL_Y=4 TILE_X=8 TILE_Y=4 "
         "TILE_K=4\n"
         "conv_of_the_future f32 window rows=2^1 columns=2^2 terms=2^3: T=1\n"
         "conv_fwd_local f32 window rows=2^1 columns=2^2 terms=2^3: LOCAL_X=7 LOCAL_Y=4 TILE_X=8 TILE_Y=4 TILE_K=4\n";
  std::ofstream(folder + "/tuned/damaged.tuned") << std::string("\x00\x7f\x45\x4c\x46\xff\xd8", 7);
  std::ofstream(folder + "/tuned/large.tuned") << std::string((1 << 20) + 1, '#');
  std::ofstream(folder + "/tuned/empty.tuned") << "";
  const std::vector<std::string> problems = opencl::tuned_table_problems();
  for (const std::string& problem : problems) std::printf("%s\n", problem.c_str());
  const auto named = [&](const std::string& text) {
    return std::count_if(problems.begin(), problems.end(),
                         [&](const std::string& problem) { return problem.find(text) != std::string::npos; });
  };
  CHECK(problems.size() == 6);
  CHECK(named("own.tuned:3: this version has no kernel family conv_of_the_future") == 1);
  CHECK(named("own.tuned:4: conv_fwd_local has other tunables or values than LOCAL_X=7") == 1);
  CHECK(named("damaged.tuned:1: expected FAMILY") == 1);
  for (const char* file : {"folder", "large", "empty"}) CHECK(named(concat(file, ".tuned: is not a table")) == 1);

  Candidates candidates;
  if (!candidates.no_devices()) {
    opencl::OpenclDevice* device = nullptr;
    for (const auto& each : candidates.devices())
      if (!device) device = opencl::as_opencl(*each);
    REQUIRE(device != nullptr);
    check_devices(*device);
    device->pretend(gpu("Intel(R) Corporation", "Own Graphics"));
    const auto own = opencl::tuned_point(family("conv_fwd_local"), *device, ShapeClass(DType::f32, "window", 8, 8, 8));
    REQUIRE(own);
    CHECK(own->text() == "LOCAL_X=8 LOCAL_Y=4 TILE_X=8 TILE_Y=4 TILE_K=4");
  }
}

}  // namespace
