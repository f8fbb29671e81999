#include "providers/opencl/program/coming_programs.h"

#include <memory>

#include "core/status.h"

namespace pl::opencl {
namespace {

constexpr size_t kMostWaiting = 4096;

}  // namespace

ComingPrograms::ComingPrograms(int threads, bool takes_all) : takes_all_(takes_all), threads_(threads, kMostWaiting) {}

bool ComingPrograms::compiles(const std::string& file) {
  std::lock_guard<std::mutex> guard(lock_);
  const auto known = compiled_.find(file);
  return known == compiled_.end() ? takes_all_ : known->second;
}

void ComingPrograms::note(const std::string& file, bool compiled) {
  std::lock_guard<std::mutex> guard(lock_);
  compiled_[file] = compiled;
}

ComingPrograms::Ref ComingPrograms::ask(const KernelSource& source,
                                        std::function<ProgramRef(const KernelSource&)> build) {
  const auto promise = std::make_shared<std::promise<ProgramRef>>();
  Ref coming = promise->get_future().share();
  const auto make = [this, source, promise, build = std::move(build)] {
    ProgramRef made;
    try {
      made = build(source);
    } catch (...) {
      note(source.name(), false);
      promise->set_exception(std::current_exception());
    }
    if (made) {
      note(source.name(), true);
      promise->set_value(std::move(made));
    }
  };
  const auto behind = [this, make] {
    make();
    --left_;
  };
  if (compiles(source.name())) {
    ++left_;
    if (threads_.add(behind)) return coming;
    --left_;
  }
  make();
  return coming;
}

ProgramRef ComingPrograms::wait(const Ref& coming, const KernelSource& source) {
  try {
    return coming.get();
  } catch (const std::future_error&) {  // nobody builds it any more
    fail(Code::device, "building the OpenCL program ", source.name(), " was given up: the process ends");
  }
}

}  // namespace pl::opencl
