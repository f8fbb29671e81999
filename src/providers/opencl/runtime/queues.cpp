#include "providers/opencl/runtime/queues.h"

#include <algorithm>
#include <iterator>

#include "core/threads.h"

namespace pl::opencl {
namespace {

bool is_reached(const Api& cl, cl_event event) {
  cl_int status = CL_COMPLETE;
  check_cl(cl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr),
           "asking for an OpenCL event's state");
  return status <= CL_COMPLETE;
}

class QueueEvent : public Event {
 public:
  QueueEvent(const Api& cl, const void* owner, EventHandle event) : cl_(cl), owner_(owner), event_(std::move(event)) {}

  bool done() override {
    refuse_after_fork();
    return is_reached(cl_, event_.get());
  }
  void synchronize() override {
    refuse_after_fork();
    cl_event id = event_.get();
    check_cl(cl_.clWaitForEvents(1, &id), "waiting for an OpenCL event");
  }
  double milliseconds_since(Event& first) override {
    auto* other = dynamic_cast<QueueEvent*>(&first);
    require(other && other->owner_ == owner_, Code::device, "the events are of two devices, which share no clock");
    return double(int64_t(nanoseconds()) - int64_t(other->nanoseconds())) * 1e-6;
  }

  cl_event get() const { return event_.get(); }
  const void* owner() const { return owner_; }

 private:
  cl_ulong nanoseconds() {
    synchronize();
    cl_ulong at = 0;
    const cl_int code = cl_.clGetEventProfilingInfo(event_.get(), CL_PROFILING_COMMAND_END, sizeof at, &at, nullptr);
    require(code != CL_PROFILING_INFO_NOT_AVAILABLE, Code::device,
            "the event has no time: its queue was made without CL_QUEUE_PROFILING_ENABLE");
    check_cl(code, "reading an OpenCL event's time");
    return at;
  }

  const Api& cl_;
  const void* owner_;
  EventHandle event_;
};

}  // namespace

QueueStream::QueueStream(std::shared_ptr<Queues> queues, size_t number)
    : Stream(queues.get()), queues_(std::move(queues)), number_(number) {}

QueueStream::~QueueStream() {
  if (number_ != 0) queues_->give_back(number_);
}

EventRef QueueStream::record() {
  refuse_after_fork();
  return std::make_shared<QueueEvent>(queues_->cl(), owner(), queues_->mark(number_));
}

void QueueStream::wait(const EventRef& event) {
  refuse_after_fork();
  const auto* own = dynamic_cast<const QueueEvent*>(event.get());
  if (own && own->owner() == owner())
    queues_->wait(number_, own->get());
  else
    event->synchronize();
}

void QueueStream::synchronize() {
  refuse_after_fork();
  queues_->finish(number_);
}

bool QueueStream::done() {
  refuse_after_fork();
  return queues_->done(number_);
}

// The queues of streams are not released, against the fault kQueueRelease (faults.h).
Queues::~Queues() {
  for (size_t i = 1; i < lines_.size(); ++i) lines_[i].queue.release();
}

void Queues::open(Queue first, std::function<Queue()> more) {
  lines_.emplace_back();
  lines_.front().queue = std::move(first);
  lines_.front().leased = true;
  more_ = std::move(more);
}

size_t Queues::lease() {
  submission_.close();  // the thread knows one queue
  std::lock_guard<std::mutex> guard(lock_);
  for (size_t i = 1; i < lines_.size(); ++i)
    if (!lines_[i].leased) {
      lines_[i].leased = true;
      return i;
    }
  Queue queue = more_();
  if (!several_) {
    alone_ = mark_locked(0, 0, nullptr);
    flush(0);
    several_ = true;
  }
  const size_t number = lines_.size();
  lines_.emplace_back();
  lines_.back().queue = std::move(queue);
  lines_.back().leased = true;
  const cl_event before = alone_.get();
  mark_locked(number, 1, &before);
  return number;
}

void Queues::give_back(size_t number) {
  std::lock_guard<std::mutex> guard(lock_);
  lines_[number].leased = false;
}

bool Queues::overtakes(size_t number, const Command& command) const {
  if (command.line == number) return false;
  const std::vector<uint64_t>& seen = lines_[number].seen;
  return command.line >= seen.size() || seen[command.line] < command.number;
}

void Queues::flush(size_t number) {
  Line& line = lines_[number];
  if (several_ && line.flushed == line.commands) return;
  check_cl(cl_.clFlush(line.queue.get()), "flushing an OpenCL queue");
  line.flushed = line.commands;
}

// Of each other queue the last command that is not to be overtaken: those before it are done then.
const std::vector<cl_event>& Queues::find_waits(size_t number, const Use* uses, size_t count) {
  latest_.assign(lines_.size(), nullptr);
  waits_.clear();
  const auto consider = [&](const CommandRef& command) {
    if (!command || !overtakes(number, *command)) return;
    const Command*& latest = latest_[command->line];
    if (!latest || latest->number < command->number) latest = command.get();
  };
  for (size_t i = 0; i < count; ++i) {
    const auto* last = static_cast<const LastUses*>(uses[i].block->last_uses.get());
    if (!last) continue;
    consider(last->write);
    if (uses[i].writes)
      for (const CommandRef& read : last->reads) consider(read);
  }
  for (const Command* command : latest_) {
    if (!command) continue;
    flush(command->line);  // or a device need never start what is waited for
    waits_.push_back(command->event.get());
  }
  return waits_;
}

void Queues::note(size_t number, const Use* uses, size_t count, EventHandle event) {
  Line& line = lines_[number];
  line.seen.resize(lines_.size(), 0);
  for (const Command* waited : latest_)
    if (waited) line.seen[waited->line] = waited->number;
  const auto command = std::make_shared<const Command>(Command{number, ++line.commands, std::move(event)});
  for (size_t i = 0; i < count; ++i) {
    std::shared_ptr<void>& kept = uses[i].block->last_uses;
    if (!kept) kept = std::make_shared<LastUses>();
    auto& last = *static_cast<LastUses*>(kept.get());
    if (uses[i].writes) {
      last.write = command;
      last.reads.clear();
      continue;
    }
    if (last.write == command) continue;
    const auto same = std::find_if(last.reads.begin(), last.reads.end(),
                                   [&](const CommandRef& read) { return read->line == number; });
    if (same == last.reads.end())
      last.reads.push_back(command);
    else
      *same = command;
  }
}

EventHandle Queues::mark_locked(size_t number, cl_uint waits, const cl_event* list) {
  cl_event made = nullptr;
  check_cl(cl_.clEnqueueMarkerWithWaitList(lines_[number].queue.get(), waits, list, &made), "queueing an OpenCL event");
  ++lines_[number].commands;
  return EventHandle(&cl_, made);
}

EventHandle Queues::mark(size_t number) {
  submission_.settle();
  std::lock_guard<std::mutex> guard(lock_);
  EventHandle event = mark_locked(number, 0, nullptr);
  flush(number);
  return event;
}

void Queues::wait(size_t number, cl_event event) {
  submission_.settle();
  std::lock_guard<std::mutex> guard(lock_);
  mark_locked(number, 1, &event);
}

void Queues::finish(size_t number) {
  submission_.settle();
  cl_command_queue queue = nullptr;
  uint64_t commands = 0;
  {
    std::lock_guard<std::mutex> guard(lock_);
    queue = lines_[number].queue.get();
    commands = lines_[number].commands;
  }
  check_cl(cl_.clFinish(queue), "waiting for an OpenCL queue");
  std::lock_guard<std::mutex> guard(lock_);
  uint64_t& finished = lines_[number].finished;
  finished = std::max(finished, commands);
}

// One marker answers until another command follows: one a question would never be reached when it is asked about.
bool Queues::done(size_t number) {
  submission_.settle();
  std::lock_guard<std::mutex> guard(lock_);
  Line& line = lines_[number];
  if (line.finished == line.commands) return true;
  if (!line.asked.get() || line.asked_at != line.commands) {
    line.asked = mark_locked(number, 0, nullptr);
    line.asked_at = line.commands;
    flush(number);
  }
  if (!is_reached(cl_, line.asked.get())) return false;
  line.finished = line.commands;
  return true;
}

void Queues::finish_all() {
  submission_.settle();
  if (!several_) return finish(0);
  std::vector<cl_command_queue> queues;
  {
    std::lock_guard<std::mutex> guard(lock_);
    for (const Line& line : lines_) queues.push_back(line.queue.get());
  }
  for (cl_command_queue queue : queues) check_cl(cl_.clFinish(queue), "waiting for an OpenCL queue");
}

std::shared_ptr<void> Queues::uses_of_borrowed(cl_mem memory) {
  std::lock_guard<std::mutex> guard(lock_);
  for (auto it = borrowed_.begin(); it != borrowed_.end();)
    it = it->second.expired() ? borrowed_.erase(it) : std::next(it);
  std::weak_ptr<void>& known = borrowed_[memory];
  std::shared_ptr<void> uses = known.lock();
  if (!uses) known = uses = std::make_shared<LastUses>();
  return uses;
}

bool Queues::ready(size_t number, const Block& block) {
  if (!several_) return true;
  std::lock_guard<std::mutex> guard(lock_);
  const auto* last = static_cast<const LastUses*>(block.last_uses.get());
  if (!last) return true;
  const auto open = [&](const CommandRef& command) {
    if (!command || !overtakes(number, *command)) return false;
    cl_int status = CL_COMPLETE;
    const cl_int code =
        cl_.clGetEventInfo(command->event.get(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
    return code == CL_SUCCESS && status > CL_COMPLETE;
  };
  return !open(last->write) && std::none_of(last->reads.begin(), last->reads.end(), open);
}

}  // namespace pl::opencl
