// The queues of one OpenCL device: that which every device has, and those of streams (core/stream.h).
//
// As long as there is one queue, nothing is noted.  From the second one on each command has an event, and every block
// of memory knows the command that wrote it last and those that have read it since, one for each queue: a command waits
// for those of other queues that it must not overtake, and for nothing else.  All of them wait for what was queued
// before.
//
// With one queue launches may wait in submission() for a thread that starts them.  What is about all commands (finish,
// mark, wait) counts them in; who calls command() settles them before.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/memory.h"
#include "core/stream.h"
#include "providers/opencl/runtime/objects.h"
#include "providers/opencl/runtime/submission.h"

namespace pl::opencl {

// What a command does with a block.
struct Use {
  Block* block;
  bool writes;
};

class Queues {
 public:
  explicit Queues(const Api& cl) : cl_(cl) {}
  ~Queues();
  // `more` makes another queue.
  void open(Queue first, std::function<Queue()> more);

  const Api& cl() const { return cl_; }
  cl_command_queue first() const { return lines_.front().queue.get(); }
  bool several() const { return several_; }
  Submission& submission() { return submission_; }

  // A queue that no stream has; one that had none before is made.
  size_t lease();
  void give_back(size_t number);

  // Queues a command after those that it must not overtake, by start(queue, waits, list of events, where to put its own
  // event).  `event`, if given, becomes that.
  template <class Start>
  void command(size_t number, const Use* uses, size_t count, EventHandle* event, const char* what, Start&& start) {
    std::lock_guard<std::mutex> guard(lock_);
    cl_event made = nullptr;
    if (!several_) {
      check_cl(start(lines_.front().queue.get(), 0, nullptr, event ? &made : nullptr), what);
      if (event) *event = EventHandle(&cl_, made);
      ++lines_.front().commands;
      return;
    }
    const std::vector<cl_event>& waits = find_waits(number, uses, count);
    check_cl(start(lines_[number].queue.get(), cl_uint(waits.size()), waits.empty() ? nullptr : waits.data(), &made),
             what);
    EventHandle own(&cl_, made);
    if (event) *event = EventHandle::retain(&cl_, made);
    note(number, uses, count, std::move(own));
  }

  // For Block::last_uses: blocks over one cl_mem share what is noted.
  std::shared_ptr<void> uses_of_borrowed(cl_mem memory);

  // The event of a command that is done when all before it on the queue are.
  EventHandle mark(size_t number);
  // Commands from now on wait for an event of this device's.
  void wait(size_t number, cl_event event);
  void finish(size_t number);
  void finish_all();
  bool done(size_t number);  // whether all commands are
  // Whether a command that writes the block would wait for no other queue.
  bool ready(size_t number, const Block& block);

 private:
  struct Command {
    size_t line;
    uint64_t number;  // of its line, from 1
    EventHandle event;
  };
  using CommandRef = std::shared_ptr<const Command>;
  struct LastUses {  // of a block
    CommandRef write;
    std::vector<CommandRef> reads;  // since then; one for a line
  };
  struct Line {
    Queue queue;
    uint64_t commands = 0, flushed = 0, finished = 0;
    EventHandle asked;  // reached when the first `asked_at` commands are done
    uint64_t asked_at = 0;
    std::vector<uint64_t> seen;  // by line: its last command that this one has waited for
    bool leased = false;
  };
  const std::vector<cl_event>& find_waits(size_t number, const Use* uses, size_t count);
  void note(size_t number, const Use* uses, size_t count, EventHandle event);
  bool overtakes(size_t number, const Command& command) const;
  EventHandle mark_locked(size_t number, cl_uint waits, const cl_event* list);
  void flush(size_t number);

  const Api& cl_;
  Submission submission_;
  std::mutex lock_;  // guards all below, and what blocks hold in last_uses
  std::atomic<bool> several_{false};
  std::deque<Line> lines_;
  std::function<Queue()> more_;
  std::map<cl_mem, std::weak_ptr<void>> borrowed_;
  EventHandle alone_;                   // after all that was queued while there was one queue
  std::vector<const Command*> latest_;  // of find_waits
  std::vector<cl_event> waits_;
};

class QueueStream : public Stream {
 public:
  // That of a leased queue, or of the first one, which is the device's own.
  QueueStream(std::shared_ptr<Queues> queues, size_t number);
  ~QueueStream() override;
  size_t number() const { return number_; }
  bool is_own() const override { return number_ == 0; }
  EventRef record() override;
  void wait(const EventRef& event) override;
  void synchronize() override;
  bool done() override;

 private:
  const std::shared_ptr<Queues> queues_;
  const size_t number_;
};

// Of the calling thread's stream.
inline size_t current_number(const Queues& queues) {
  const Stream* stream = current_stream(&queues);
  return stream ? static_cast<const QueueStream*>(stream)->number() : 0;
}

}  // namespace pl::opencl
